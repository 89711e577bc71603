// YAML text -> PromotionPolicy, read as strictly as a contract (contract/reader.h): every problem
// in one run, with its place.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kcc/contract/diagnostic.h"
#include "kcc/contract/policy.h"

namespace kcc {

struct PolicyOutcome {
  std::optional<PromotionPolicy> policy;  // present iff there is no error
  std::vector<Diagnostic> diagnostics;    // in the order of the text
};

// Never fails otherwise than by diagnostics; time and memory are bounded by the text's size.
PolicyOutcome ReadPolicy(std::string_view yaml);

}  // namespace kcc
