#include "kcc/contract/problems.h"

#include <algorithm>

namespace kcc {

void Problems::Add(DiagnosticKind kind, size_t offset, int length, std::string code,
                   std::string message, std::string hint) {
  size_t& count = kind == DiagnosticKind::kError ? errors_ : warnings_;
  if (++count > kProblemsMax) return;
  found_.push_back({kind, std::move(code), std::move(message), std::move(hint),
                    document_.source().MarkAt(offset), length});
}

std::vector<Diagnostic> Problems::Take() {
  std::stable_sort(found_.begin(), found_.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(a.mark.line, a.mark.column) < std::pair(b.mark.line, b.mark.column);
  });
  if (errors_ >= kProblemsMax || warnings_ > kProblemsMax) {
    const bool error = errors_ >= kProblemsMax;
    const std::string count = std::to_string(kProblemsMax);
    found_.push_back({error ? DiagnosticKind::kError : DiagnosticKind::kWarning,
                      "too-many-problems",
                      error ? "stopped after " + count + " errors"
                            : "only the first " + count + " warnings are listed",
                      "mend these and check again",
                      {},
                      1});
  }
  return std::move(found_);
}

}  // namespace kcc
