#include "kcc/register/signed_head.h"

#include "kcc/statement/chain_head.h"
#include "kcc/statement/timestamp.h"
#include "kcc/statement/verify.h"

namespace kcc {

Result<Statement> HeadToSign(Register& source, int64_t time_ms) {
  KCC_TRY(const Head head, source.ReadHead());
  KCC_TRY(const std::vector<Event> first, source.ReadEvents({.first = 1, .last = 1}));
  KCC_TRY(const std::vector<Event> last,
          source.ReadEvents({.first = head.sequence, .last = head.sequence}));
  if (first.empty() || last.empty()) {
    return InvalidError("the register has no event yet, so there is no head to sign",
                        Place{source.name()});
  }
  // Verify refuses such a head: a key that has expired could otherwise sign later events with an
  // earlier date.
  if (last[0].time_ms > time_ms) {
    return InvalidError("the last event is of " + ShownTimestamp(last[0].time_ms) +
                            ", which is later than " + ShownTimestamp(time_ms) +
                            "; sign it later, or say with --time when it is signed",
                        Place{source.name()});
  }
  return ChainHeadStatement({first[0].digest, head.sequence, head.digest, time_ms});
}

SignedHead ReadSignedHead(std::string_view envelope, const Keyring& keyring, size_t threshold) {
  SignedHead read;
  VerifyOptions options;
  options.threshold = threshold;
  const Verification found = Verify(envelope, keyring, options);
  for (const NamedFailure& failure : found.failures) {
    read.wrong +=
        (read.wrong.empty() ? "" : "; ") + std::string(Name(failure.failure)) + ": " + failure.text;
  }
  if (!read.wrong.empty()) return read;
  const Result<ChainHead> head =
      found.statement->predicate_type == kRegisterHeadType
          ? ReadChainHead(found.statement->predicate)
          : InvalidError("it is not a register's head but " + found.statement->predicate_type);
  if (!head.has_value()) {
    read.wrong = head.error().message();
    return read;
  }
  // The subject is what others' tools look at: it must be what the predicate says.
  if (found.statement->subjects !=
      std::vector<NamedDigest>{{"register/" + head->register_id, head->digest}}) {
    read.wrong = "malformed: its subject is not the head that it states";
    return read;
  }
  read.head = {head->sequence, head->digest};
  read.register_id = head->register_id;
  read.time_ms = head->time_ms;
  for (const SignatureCheck& check : found.signatures) {
    if (!check.failure) read.signers.push_back(check.owner);
  }
  return read;
}

}  // namespace kcc
