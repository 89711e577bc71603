#include "kcc/contract/strict.h"

#include <algorithm>
#include <tuple>

namespace kcc {

std::vector<Diagnostic> CheckStrictly(const Contract& contract) {
  std::vector<Diagnostic> found;
  for (const Clause& clause : contract.clauses) {
    if (clause.level == ViolationLevel::kL1 || !clause.why.empty()) continue;
    found.push_back({DiagnosticKind::kWarning, "no-why",
                     "clause '" + clause.id + "' of level " + std::string(Name(clause.level)) +
                         " does not say where its threshold comes from",
                     "add 'why: \"...\"'", clause.mark, 1});
  }
  std::stable_sort(found.begin(), found.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tuple(a.mark.line, a.mark.column) < std::tuple(b.mark.line, b.mark.column);
  });
  if (contract.review_by.empty()) {
    found.push_back({DiagnosticKind::kWarning, "no-review-date",
                     "the contract does not say by when somebody looks at it again",
                     "add 'reviewBy: 2027-06-30' to metadata", Mark{}, 1});
  }
  return found;
}

}  // namespace kcc
