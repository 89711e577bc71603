// Any bytes: reading them ends, the diagnostics can be printed, and a contract comes out exactly if
// no error was reported. A contract survives being written as YAML and read again, to the same
// canonical bytes. The same of promotion and monitor policies and of gateways.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/document_kind.h"
#include "kcc/contract/gateway_diff.h"
#include "kcc/contract/gateway_reader.h"
#include "kcc/contract/monitor_diff.h"
#include "kcc/contract/monitor_reader.h"
#include "kcc/contract/policy_diff.h"
#include "kcc/contract/policy_reader.h"
#include "kcc/contract/reader.h"

namespace {

// Of a document that is no contract: what reads it, what it was read as, and what compares it.
template <class Read, class Meant, class Diff>
void TryDocument(std::string_view text, Read read, Meant meant, Diff diff) {
  const auto outcome = read(text);
  const bool error = std::any_of(
      outcome.diagnostics.begin(), outcome.diagnostics.end(),
      [](const kcc::Diagnostic& row) { return row.kind == kcc::DiagnosticKind::kError; });
  const auto& made = outcome.*meant;
  KCC_CHECK(made.has_value() == !error);
  if (!made) return;
  const auto again = read(kcc::ToYaml(*made));
  KCC_CHECK((again.*meant).has_value());
  KCC_CHECK(kcc::CanonicalJson(*(again.*meant)) == kcc::CanonicalJson(*made));
  KCC_CHECK(diff(*made, *(again.*meant)).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using kcc::Diagnostic;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)kcc::KindOfDocument(text);
  TryDocument(text, kcc::ReadPolicy, &kcc::PolicyOutcome::policy, kcc::DiffPolicies);
  TryDocument(text, kcc::ReadMonitorPolicy, &kcc::MonitorOutcome::policy, kcc::DiffMonitorPolicies);
  TryDocument(text, kcc::ReadGateway, &kcc::GatewayOutcome::config, kcc::DiffGateways);
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
