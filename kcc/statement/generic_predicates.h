// The same evaluation in two predicates of others, for verifiers that know nothing of kcc:
// SLSA's Verification Summary v1 (slsa.dev/spec/v1.0/verification_summary) and in-toto's Test
// Result v0.1.
//
// Neither knows *inconclusive* or *error*. Both become FAILED: what was not shown did not pass.
#pragma once

#include <string>

#include "kcc/base/result.h"
#include "kcc/statement/evaluation.h"
#include "kcc/statement/in_toto.h"

namespace kcc {

inline constexpr std::string_view kDefaultVerifier = "kcc:verifier";

struct VsaSettings {
  std::string verifier = std::string(kDefaultVerifier);  // URI: who vouches
  std::string resource;                                  // URI of what was verified
  NamedDigest input;  // the evaluation's envelope; an empty digest: none is named
};

// PASSED and the level KCC_<STAGE> ("KCC_OFFLINE"), or FAILED. Fails (kInvalid) without a resource.
Result<Statement> VsaStatement(const StatedEvaluation& evaluation, const VsaSettings& settings);

// A test is a clause on a slice, "N-1/all". PASSED; WARNED where the judge passed it with warnings;
// else FAILED.
Result<Statement> TestResultStatement(const StatedEvaluation& evaluation);

}  // namespace kcc
