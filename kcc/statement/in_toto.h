// An in-toto Statement, version 1: what is said (the predicate, whose type a URI names) about which
// things (the subjects, known by their digests).
//
// kcc has no domain of its own, so its types are URIs of the scheme "kcc:". The predicates are in
// evaluation.h, promotion_record.h and chain_head.h; two more are others' (generic_predicates.h).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

inline constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";

inline constexpr std::string_view kEvaluationType = "kcc:evaluation/v1";
inline constexpr std::string_view kPromotionType = "kcc:promotion/v1";
inline constexpr std::string_view kRegisterHeadType = "kcc:register-head/v1";
inline constexpr std::string_view kSlsaVsaType = "https://slsa.dev/verification_summary/v1";
inline constexpr std::string_view kTestResultType =
    "https://in-toto.io/attestation/test-result/v0.1";

// A thing with a name and a digest: "sha256:…".
struct NamedDigest {
  std::string name;
  std::string digest;

  bool operator==(const NamedDigest&) const = default;
};

struct Statement {
  std::vector<NamedDigest> subjects;  // never empty; a digest is empty where it has no SHA-256
  std::string predicate_type;
  std::string predicate;  // JSON text of one object
};

// The payload of an envelope: compact JSON without a line feed. Fails (kInvalid) without a subject
// or where a digest is none.
Result<std::string> StatementJson(const Statement& statement);

// A statement of anybody's. Unknown keys are ignored, as in-toto asks; a repeated one is refused.
// Errors (kInvalid) name the key.
Result<Statement> ReadStatement(std::string_view json);

}  // namespace kcc
