#include "apps/kcc/monitoring.h"

#include <algorithm>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/contract/monitor_reader.h"
#include "kcc/report/terminal_text.h"

namespace kcc::cli {
namespace {

std::optional<MonitorPolicy> RequireMonitorPolicy(const std::string& path, Console& console,
                                                  int* exit_code) {
  auto text = ReadInput(path, kContractBytesMax, console);
  if (!text.has_value()) {
    *exit_code = ReportError(std::move(text.error()).At(Place{DisplayName(path)}), console);
    return std::nullopt;
  }
  MonitorOutcome outcome = ReadMonitorPolicy(*text);
  PrintDiagnostics(outcome.diagnostics, DisplayName(path), *text, console);
  if (!outcome.policy) *exit_code = kExitInvalid;
  return std::move(outcome.policy);
}

Style StyleOfState(KernelState state) {
  switch (state) {
    case KernelState::kServing:
      return Style::kGreen;
    case KernelState::kGuarded:
      return Style::kRed;
    case KernelState::kProbation:
      break;
  }
  return Style::kYellow;
}

// Probes are audited and not served, so that a share is said only where it is one.
std::string Audited(const KernelStatus& kernel) {
  std::string count = std::to_string(kernel.audited);
  if (kernel.served == 0) return count;
  if (kernel.audited > kernel.served) return count + " with probes";
  return count + " (" +
         ReadableNumber(100 * static_cast<double>(kernel.audited) /
                        static_cast<double>(kernel.served)) +
         " %)";
}

// "2 of 3 satisfied"
std::string Decided(const KernelStatus& kernel) {
  const auto satisfied =
      std::count_if(kernel.pairs.begin(), kernel.pairs.end(),
                    [](const PairStatus& pair) { return pair.verdict == Verdict::kSatisfied; });
  return std::to_string(satisfied) + " of " + std::to_string(kernel.pairs.size()) + " satisfied";
}

void PrintRow(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
              std::optional<Style> style, Console& console) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string cell = i + 1 == cells.size() ? cells[i] : Padded(cells[i], widths[i]) + "  ";
    line += i == 1 && style ? Paint(*style, cell, console.colour_out) : cell;
  }
  console.out << line << '\n';
}

void PrintPairs(const KernelStatus& kernel, Console& console) {
  if (kernel.audited == 0) return;
  for (const PairStatus& pair : kernel.pairs) {
    if (pair.verdict == Verdict::kSatisfied) continue;
    const std::string text = kernel.name + ", " + pair.clause + " on " + pair.slice +
                             (pair.of_train ? " (by train's outcomes)" : "") + ": " +
                             std::string(Name(pair.verdict)) + ". " + pair.reason;
    console.out << WrapText(text, 2, static_cast<size_t>(console.width)) << '\n';
  }
}

}  // namespace

std::optional<MonitorDocuments> RequireMonitorDocuments(const std::string& contract,
                                                        const std::string& policy, Console& console,
                                                        int* exit_code) {
  auto valid = RequireContract(contract, console, exit_code);
  if (!valid) return std::nullopt;
  auto read = RequireMonitorPolicy(policy, console, exit_code);
  if (!read) return std::nullopt;
  return MonitorDocuments{std::move(valid->contract), std::move(*read)};
}

Stage StageNamed(const std::string& word) {
  for (const Stage stage : {Stage::kOffline, Stage::kShadow, Stage::kCanary}) {
    if (word == Name(stage)) return stage;
  }
  return Stage::kFull;
}

bool IsBad(const MonitorStatus& status) {
  return std::any_of(status.kernels.begin(), status.kernels.end(), [](const KernelStatus& kernel) {
    return kernel.state == KernelState::kGuarded || kernel.verdict == Verdict::kViolated ||
           kernel.verdict == Verdict::kError;
  });
}

void PrintMonitorStatus(const MonitorStatus& status, Console& console) {
  console.out << (status.serves.empty() ? "no kernel serves" : status.serves + " serves")
              << (status.panic ? " (panic): " : ": ") << status.reason << "\n\n";
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "state", "verdict", "clauses", "risk", "served", "audited", "alarms"}};
  for (const KernelStatus& kernel : status.kernels) {
    int64_t alarms = 0;
    for (const PairStatus& pair : kernel.pairs) alarms += pair.alarms;
    rows.push_back({kernel.name, std::string(Name(kernel.state)), std::string(Name(kernel.verdict)),
                    Decided(kernel), ReadableNumber(kernel.health), std::to_string(kernel.served),
                    Audited(kernel), std::to_string(alarms)});
  }
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  PrintRow(rows[0], widths, std::nullopt, console);
  for (size_t i = 1; i < rows.size(); ++i) {
    PrintRow(rows[i], widths, StyleOfState(status.kernels[i - 1].state), console);
  }
  console.out << '\n';
  for (const KernelStatus& kernel : status.kernels) PrintPairs(kernel, console);
}

}  // namespace kcc::cli
