// YAML text -> PromotionPolicy, read as strictly as a contract (contract/reader.h): every problem
// in one run, with its place.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kcc/contract/diagnostic.h"
#include "kcc/contract/policy.h"

namespace kcc {

enum class DocumentKind : uint8_t { kContract, kPolicy };

// What the text says it is, by its key `kind`. A misspelt kind is the one it is nearest to; text
// that is not YAML, or has no kind, is taken for a contract, whose reader says what is wrong.
DocumentKind KindOfDocument(std::string_view yaml);

struct PolicyOutcome {
  std::optional<PromotionPolicy> policy;  // present iff there is no error
  std::vector<Diagnostic> diagnostics;    // in the order of the text
};

// Never fails otherwise than by diagnostics; time and memory are bounded by the text's size.
PolicyOutcome ReadPolicy(std::string_view yaml);

}  // namespace kcc
