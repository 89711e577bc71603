#include "kcc/statement/verify.h"

#include <algorithm>
#include <set>

#include "kcc/base/check.h"
#include "kcc/statement/chain_head.h"
#include "kcc/statement/dsse.h"
#include "kcc/statement/evaluation.h"
#include "kcc/statement/json_fields.h"
#include "kcc/statement/promotion_record.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

// What a statement of a known kind says that verification needs.
struct KnownStatement {
  KeyRole role = KeyRole::kEvaluation;
  std::optional<int64_t> time_ms;
  std::optional<Verdict> verdict;
};

// Of the two predicates of others, as little as is needed: they say PASSED, WARNED or FAILED, which
// is satisfied or not known to be.
Result<KnownStatement> ReadGeneric(const Statement& statement) {
  const bool summary = statement.predicate_type == kSlsaVsaType;
  json::parser parser;
  KCC_TRY(const json::element element, ParseJson(parser, statement.predicate));
  std::string problem;
  const JsonFields root(element, "predicate", &problem);
  KnownStatement known;
  if (summary) known.time_ms = root.At("timeVerified").Time();
  const JsonFields field = root.At(summary ? "verificationResult" : "result");
  const std::string result = field.Text();
  if (result == "PASSED" || (!summary && result == "WARNED")) {
    known.verdict = Verdict::kSatisfied;
  } else if (result != "FAILED") {
    field.Fail("is '" + result + "', which is no result");
  }
  if (!problem.empty()) return InvalidError(problem);
  return known;
}

Result<std::optional<KnownStatement>> ReadKnown(const Statement& statement) {
  const std::string& type = statement.predicate_type;
  if (type == kEvaluationType) {
    KCC_TRY(const StatedEvaluation evaluation, ReadEvaluation(statement.predicate));
    if (evaluation.verdict == Verdict::kSatisfied && !evaluation.passed()) {
      return InvalidError("not an evaluation: it is satisfied, but not every clause is");
    }
    if (statement.subjects != SubjectsOf(evaluation)) {
      return InvalidError("not an evaluation: its subjects are not what was evaluated");
    }
    return std::optional<KnownStatement>(
        KnownStatement{KeyRole::kEvaluation, evaluation.time_ms, evaluation.verdict});
  }
  if (type == kPromotionType) {
    KCC_TRY(const PromotionRecord record, ReadPromotionRecord(statement.predicate));
    return std::optional<KnownStatement>(
        KnownStatement{KeyRole::kPromotion, record.time_ms, std::nullopt});
  }
  if (type == kRegisterHeadType) {
    KCC_TRY(const ChainHead head, ReadChainHead(statement.predicate));
    return std::optional<KnownStatement>(
        KnownStatement{KeyRole::kHead, head.time_ms, std::nullopt});
  }
  if (type == kSlsaVsaType || type == kTestResultType) {
    KCC_TRY(const KnownStatement known, ReadGeneric(statement));
    return std::optional<KnownStatement>(known);
  }
  return std::optional<KnownStatement>();
}

// Whether the key may have signed such a statement then.
std::optional<NamedFailure> CheckValidity(const KeyringKey& key, KeyRole role,
                                          std::optional<int64_t> time_ms) {
  const std::string who = "the key of " + key.owner + " ";
  if (!key.Has(role)) {
    return NamedFailure{VerifyFailure::kRole,
                        who + "does not have the role '" + std::string(Name(role)) + "'"};
  }
  const bool dated = key.not_before_ms || key.not_after_ms || key.revoked_at_ms;
  if (!dated) return std::nullopt;
  if (!time_ms) {
    return NamedFailure{VerifyFailure::kNoTime,
                        who +
                            "has dates, and the statement does not say when it was made; give "
                            "the time of the event"};
  }
  const std::string at = ", the event is of " + FormatTimestamp(*time_ms);
  if (key.not_before_ms && *time_ms < *key.not_before_ms) {
    return NamedFailure{VerifyFailure::kNotYetValid,
                        who + "is valid from " + FormatTimestamp(*key.not_before_ms) + " on" + at};
  }
  if (key.revoked_at_ms && *time_ms >= *key.revoked_at_ms) {
    return NamedFailure{VerifyFailure::kRevoked,
                        who + "was revoked at " + FormatTimestamp(*key.revoked_at_ms) + at};
  }
  if (key.not_after_ms && *time_ms >= *key.not_after_ms) {
    return NamedFailure{VerifyFailure::kExpired,
                        who + "expired at " + FormatTimestamp(*key.not_after_ms) + at};
  }
  return std::nullopt;
}

// One verification: the steps in their order, each of which adds to what was found. Invariant:
// every way through Run that does not count enough valid keys adds a failure, so that an empty list
// of failures is a statement that was signed.
class Verifier {
 public:
  Verifier(const Keyring& keyring, const VerifyOptions& options)
      : keyring_(keyring), options_(options) {}

  Verification Run(std::string_view envelope_json) {
    const Result<DsseEnvelope> envelope = ReadEnvelope(envelope_json);
    if (!envelope.has_value()) {
      Fail(VerifyFailure::kMalformed, envelope.error().message());
    } else if (envelope->payload_type != kInTotoPayloadType) {
      Fail(VerifyFailure::kPayloadType, "the payload type is '" + envelope->payload_type +
                                            "', and only " + std::string(kInTotoPayloadType) +
                                            " is read");
    } else if (!CheckSignatures(*envelope)) {
      CountKeys();  // none: says why
    } else if (ReadPayload(envelope->payload)) {
      CheckKeys();
      CountKeys();
      CheckAsked();
    }
    return std::move(found_);
  }

 private:
  void Fail(VerifyFailure failure, std::string text) {
    found_.failures.push_back({failure, std::move(text)});
  }

  // The mathematics alone. True if some key of the keyring signed these bytes.
  bool CheckSignatures(const DsseEnvelope& envelope) {
    const std::string bytes = PreAuthEncoding(envelope.payload_type, envelope.payload);
    bool any = false;
    for (const EnvelopeSignature& one : envelope.signatures) {
      const KeyringKey* key = keyring_.Find(one.key_id);
      SignatureCheck check{one.key_id, key == nullptr ? "" : key->owner, {}};
      if (key == nullptr) {
        check.failure =
            NamedFailure{VerifyFailure::kUnknownKey, "the keyring has no key '" + one.key_id + "'"};
      } else if (!key->key.Verify(bytes, one.signature)) {
        check.failure =
            NamedFailure{VerifyFailure::kForged, "the signature is not one of the key of " +
                                                     key->owner + " over this statement"};
      }
      any = any || !check.failure;
      found_.signatures.push_back(std::move(check));
      keys_.push_back(key);
    }
    return any;
  }

  bool ReadPayload(std::string_view payload) {
    Result<Statement> statement = ReadStatement(payload);
    if (!statement.has_value()) {
      Fail(VerifyFailure::kMalformed, statement.error().message());
      return false;
    }
    found_.statement = std::move(*statement);
    const Result<std::optional<KnownStatement>> known = ReadKnown(*found_.statement);
    if (!known.has_value()) {
      Fail(VerifyFailure::kMalformed, known.error().message());
      return false;
    }
    if (!known->has_value()) {
      Fail(VerifyFailure::kPredicateType,
           "the predicate type '" + found_.statement->predicate_type + "' is not known");
      return false;
    }
    known_ = **known;
    found_.verdict = known_.verdict;
    found_.stated_time_ms = known_.time_ms;
    found_.time_ms = options_.time_ms ? options_.time_ms : known_.time_ms;
    return true;
  }

  void CheckKeys() {
    std::set<std::string_view> counted;
    for (size_t i = 0; i < keys_.size(); ++i) {
      SignatureCheck& check = found_.signatures[i];
      if (check.failure) continue;
      check.failure = CheckValidity(*keys_[i], known_.role, found_.time_ms);
      if (check.failure) continue;
      if (!counted.insert(keys_[i]->key.id()).second) {
        check.failure =
            NamedFailure{VerifyFailure::kRepeatedKey,
                         "the key of " + keys_[i]->owner + " has signed already, and counts once"};
      }
    }
    found_.good_keys = counted.size();
  }

  // What the caller wants to know of the statement.
  void CheckAsked() {
    for (const std::string& asked : options_.subjects) {
      const std::vector<NamedDigest>& subjects = found_.statement->subjects;
      if (std::none_of(subjects.begin(), subjects.end(),
                       [&](const NamedDigest& one) { return one.digest == asked; })) {
        Fail(VerifyFailure::kSubject, "the statement is not about " + asked);
      }
    }
    if (options_.verdict && found_.verdict != options_.verdict) {
      Fail(VerifyFailure::kVerdict,
           "the statement does not say '" + std::string(Name(*options_.verdict)) + "'" +
               (found_.verdict ? " but '" + std::string(Name(*found_.verdict)) + "'" : ""));
    }
  }

  // Signatures that do not hold are harmless where enough others do, and are reasons where not.
  void CountKeys() {
    if (found_.good_keys >= options_.threshold) return;
    for (const SignatureCheck& check : found_.signatures) {
      if (check.failure) found_.failures.push_back(*check.failure);
    }
    Fail(VerifyFailure::kThreshold, std::to_string(found_.good_keys) + " of " +
                                        std::to_string(options_.threshold) +
                                        " needed keys signed it");
  }

  const Keyring& keyring_;
  const VerifyOptions& options_;
  Verification found_;
  std::vector<const KeyringKey*> keys_;  // of found_.signatures
  KnownStatement known_;
};

}  // namespace

std::string_view Name(VerifyFailure failure) {
  switch (failure) {
    case VerifyFailure::kMalformed:
      return "malformed";
    case VerifyFailure::kPayloadType:
      return "wrong-payload-type";
    case VerifyFailure::kPredicateType:
      return "unknown-predicate-type";
    case VerifyFailure::kUnknownKey:
      return "unknown-key";
    case VerifyFailure::kForged:
      return "forged";
    case VerifyFailure::kRepeatedKey:
      return "repeated-key";
    case VerifyFailure::kNotYetValid:
      return "not-yet-valid";
    case VerifyFailure::kExpired:
      return "expired";
    case VerifyFailure::kRevoked:
      return "revoked";
    case VerifyFailure::kRole:
      return "wrong-role";
    case VerifyFailure::kNoTime:
      return "no-time";
    case VerifyFailure::kThreshold:
      return "too-few-keys";
    case VerifyFailure::kSubject:
      return "subject-mismatch";
    case VerifyFailure::kVerdict:
      return "verdict-mismatch";
  }
  return "unknown";
}

Verification Verify(std::string_view envelope_json, const Keyring& keyring,
                    const VerifyOptions& options) {
  KCC_CHECK(options.threshold >= 1);
  return Verifier(keyring, options).Run(envelope_json);
}

}  // namespace kcc
