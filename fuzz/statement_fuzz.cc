// Any bytes as each of the things that others send: an envelope, what a trusted key signed, a
// keyring, a checkpoint to stamp. Reading ends; what was read writes and reads back the same; and
// nothing is verified that no key of the keyring signed.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/memory_file.h"
#include "kcc/base/check.h"
#include "kcc/statement/attest.h"
#include "kcc/statement/dsse.h"
#include "kcc/statement/evaluation.h"
#include "kcc/statement/keyring.h"
#include "kcc/statement/stamp.h"
#include "kcc/statement/verify.h"

namespace {

// The first test vector of RFC 8032: its secret half protects nothing.
constexpr std::string_view kSecret =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";
constexpr std::string_view kRing =
    "{\"apiVersion\": \"kcc/v1\", \"kind\": \"Keyring\", \"keys\": [{\"owner\": \"ann\", "
    "\"roles\": "
    "[\"evaluation\", \"promotion\", \"head\"], \"publicKey\": \"-----BEGIN PUBLIC KEY-----\\n"
    "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\\n-----END PUBLIC KEY-----\"}]}";

const kcc::Keyring& Ring() {
  static const kcc::Keyring ring = *kcc::ReadKeyring(kRing, "ring");
  return ring;
}
const kcc::Signer& Key() {
  static const std::unique_ptr<kcc::Signer> key = *kcc::SignerFromPem(kSecret);
  return *key;
}

void CheckFound(const kcc::Verification& found) {
  if (!found.verified()) {
    KCC_CHECK(!found.failures[0].text.empty());
    return;
  }
  KCC_CHECK(found.good_keys >= 1 && found.statement.has_value());
  KCC_CHECK(!found.statement->subjects.empty());
  if (found.statement->predicate_type != kcc::kEvaluationType) return;
  const auto evaluation = kcc::ReadEvaluation(found.statement->predicate);
  KCC_CHECK(evaluation.has_value());
  KCC_CHECK((evaluation->verdict == kcc::Verdict::kSatisfied) == evaluation->passed());
}

void TryEnvelope(std::string_view text) {
  const auto envelope = kcc::ReadEnvelope(text);
  const kcc::Verification found = kcc::Verify(text, Ring(), {});
  CheckFound(found);
  if (!envelope.has_value()) {
    KCC_CHECK(!found.verified() && !envelope.error().message().empty());
    return;
  }
  const auto again = kcc::ReadEnvelope(kcc::EnvelopeJson(*envelope));
  KCC_CHECK(again.has_value() && again->payload == envelope->payload);
  KCC_CHECK(again->payload_type == envelope->payload_type);
  KCC_CHECK(again->signatures.size() == envelope->signatures.size());
}

// The readers behind a signature, which only holders of a key reach.
void TrySigned(std::string_view payload) {
  kcc::DsseEnvelope envelope{std::string(kcc::kInTotoPayloadType), std::string(payload), {}};
  KCC_CHECK(kcc::AddSignature(Key(), &envelope).has_value());
  const kcc::Verification found = kcc::Verify(kcc::EnvelopeJson(envelope), Ring(), {});
  CheckFound(found);
  if (!found.statement) return;
  const auto written = kcc::StatementJson(*found.statement);  // none where a subject has no SHA-256
  if (!written.has_value()) return;
  const auto again = kcc::ReadStatement(*written);
  KCC_CHECK(again.has_value() && again->subjects == found.statement->subjects);
}

void TryKeyring(std::string_view text) {
  const auto ring = kcc::ReadKeyring(text, "ring.yaml");
  if (!ring.has_value()) {
    KCC_CHECK(!ring.error().message().empty());
    return;
  }
  for (const kcc::KeyringKey& key : ring->keys) {
    KCC_CHECK(!key.roles.empty() && ring->Find(key.key.id()) == &key);
    KCC_CHECK(kcc::PublicKey::FromPem(key.key.Pem())->id() == key.key.id());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  TryEnvelope(text);
  TrySigned(text);
  TryKeyring(text);
  const kcc::MemoryFile file(data, size);
  (void)kcc::ReadCheckpointStamp(file.path());
  return 0;
}
