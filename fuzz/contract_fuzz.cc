// Any bytes: reading them ends, the diagnostics can be printed, and a contract comes out exactly if
// no error was reported. A contract survives being written as YAML and read again, to the same
// canonical bytes. The same of promotion and monitor policies.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/document_kind.h"
#include "kcc/contract/monitor_diff.h"
#include "kcc/contract/monitor_reader.h"
#include "kcc/contract/policy_diff.h"
#include "kcc/contract/policy_reader.h"
#include "kcc/contract/reader.h"

namespace {

// Of a policy of either kind, with what reads and compares it.
template <class Read, class Diff>
void TryPolicy(std::string_view text, Read read, Diff diff) {
  const auto outcome = read(text);
  const bool error = std::any_of(
      outcome.diagnostics.begin(), outcome.diagnostics.end(),
      [](const kcc::Diagnostic& row) { return row.kind == kcc::DiagnosticKind::kError; });
  KCC_CHECK(outcome.policy.has_value() == !error);
  if (!outcome.policy) return;
  const auto again = read(kcc::ToYaml(*outcome.policy));
  KCC_CHECK(again.policy.has_value());
  KCC_CHECK(kcc::CanonicalJson(*again.policy) == kcc::CanonicalJson(*outcome.policy));
  KCC_CHECK(diff(*outcome.policy, *again.policy).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using kcc::Diagnostic;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)kcc::KindOfDocument(text);
  TryPolicy(text, kcc::ReadPolicy, kcc::DiffPolicies);
  TryPolicy(text, kcc::ReadMonitorPolicy, kcc::DiffMonitorPolicies);
  const kcc::ReadOutcome outcome = kcc::ReadContract(text);
  bool error = false;
  int line = 0;
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    error = error || diagnostic.kind == kcc::DiagnosticKind::kError;
    KCC_CHECK(!diagnostic.code.empty() && !diagnostic.message.empty());
    KCC_CHECK(diagnostic.mark.line == 0 || diagnostic.mark.line >= line);
    line = std::max(line, diagnostic.mark.line);
    KCC_CHECK(!kcc::FormatDiagnostic(diagnostic, "fuzz.yaml", text).empty());
  }
  KCC_CHECK(outcome.contract.has_value() == !error);
  if (!outcome.contract) return 0;
  const std::string canonical = kcc::CanonicalJson(*outcome.contract);
  const kcc::ReadOutcome again = kcc::ReadContract(kcc::ToYaml(*outcome.contract));
  KCC_CHECK(again.contract.has_value());
  KCC_CHECK(kcc::CanonicalJson(*again.contract) == canonical);
  return 0;
}
