// Does a signed statement hold? Verify looks at an envelope with a keyring, and names everything
// that is wrong.
//
// The order is that of trust: the envelope is taken apart, each signature is checked against the
// key that it names, and only then is the payload read, so that nothing unsigned is interpreted.
// Whether a key was valid is asked for the time of the event, never for now: that of the caller, or
// else the one that the statement itself gives, which is its signer's word.
//
// "Verified" means: these keys signed this statement. It does not mean that the verdict in it is a
// good one; `verdict` asks for that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/judge/verdict.h"
#include "kcc/statement/in_toto.h"
#include "kcc/statement/keyring.h"

namespace kcc {

enum class VerifyFailure : uint8_t {
  kMalformed,      // not an envelope, not a statement, or one that contradicts itself
  kPayloadType,    // the envelope holds something else than an in-toto Statement
  kPredicateType,  // a statement of a kind that kcc does not know
  kUnknownKey,     // the keyring has no such key
  kForged,         // the signature is not that key's over these bytes
  kRepeatedKey,    // the key has signed already; it counts once
  kNotYetValid,    // the event is before the key's notBefore
  kExpired,        // the event is at or after its notAfter
  kRevoked,        // the event is at or after its revokedAt
  kRole,           // the key may not sign such statements
  kNoTime,         // nobody says when the event was, and the key has dates
  kThreshold,      // too few distinct keys
  kSubject,        // the statement is not about a digest that was asked for
  kVerdict,        // the statement says another verdict than was asked for
};
std::string_view Name(VerifyFailure failure);  // "unknown-key"

struct NamedFailure {
  VerifyFailure failure;
  std::string text;  // one sentence
};

struct SignatureCheck {
  std::string key_id;  // as the envelope names it
  std::string owner;   // by the keyring; empty: unknown
  std::optional<NamedFailure> failure;
};

struct VerifyOptions {
  std::optional<int64_t> time_ms = {};     // of the event
  std::vector<std::string> subjects = {};  // digests, all of which the statement must be about
  size_t threshold = 1;                    // of distinct keys; at least 1
  std::optional<Verdict> verdict = {};     // that an evaluation must say
};

struct Verification {
  std::vector<NamedFailure> failures;      // empty: verified
  std::vector<SignatureCheck> signatures;  // in the envelope's order
  size_t good_keys = 0;                    // distinct ones that hold
  std::optional<Statement> statement;      // only where a key of the keyring signed it
  std::optional<int64_t> time_ms;          // that keys were looked at with
  std::optional<int64_t> stated_time_ms;   // that the statement itself gives
  std::optional<Verdict> verdict;          // of an evaluation

  bool verified() const { return failures.empty(); }
};

Verification Verify(std::string_view envelope_json, const Keyring& keyring,
                    const VerifyOptions& options);

}  // namespace kcc
