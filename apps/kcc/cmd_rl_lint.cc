// kcc rl lint: what is wrong with a step's log-probs, and with the correction meant for them.
#include "apps/kcc/commands.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/strings.h"
#include "kcc/rl/dump.h"
#include "kcc/rl/lint.h"
#include "kcc/rl/lint_settings.h"
#include "kcc/rl/lint_training.h"
#include "kcc/rl/rl_json.h"

namespace kcc::cli {
namespace {

void PrintEvidence(const std::vector<RlEvidence>& evidence, Console& console) {
  for (const RlEvidence& e : evidence) {
    console.out << "  " << e.name << " " << ReadableNumber(e.value) << " (line "
                << ReadableNumber(e.line) << ")\n";
  }
}

void PrintReport(const RlLintReport& report, Console& console) {
  if (report.findings.empty()) {
    console.out << Paint(Style::kGreen, "ok", console.colour_out) << ": no fault found in "
                << Counted(static_cast<size_t>(report.tokens), "token")
                << "; the gap looks like numerics\n";
  }
  for (const RlFinding& finding : report.findings) {
    const bool unsure = finding.fault == RlFault::kUnsure;
    console.out << Paint(unsure ? Style::kYellow : Style::kRed, RlFaultName(finding.fault),
                         console.colour_out)
                << ": " << Shown(finding.message) << '\n';
    PrintEvidence(finding.evidence, console);
    for (const RlFault candidate : finding.candidates) {
      console.out << "  if " << RlFaultName(candidate) << ": " << RlFaultAdvice(candidate) << '\n';
    }
    console.out << "  " << RlFaultAdvice(finding.fault) << '\n';
  }
}

void PrintSettings(const std::vector<RlSettingFinding>& settings, Console& console) {
  for (const RlSettingFinding& finding : settings) {
    console.out << (finding.is_note()
                        ? Paint(Style::kYellow, "note", console.colour_out)
                        : Paint(Style::kRed, RlSettingFaultName(finding.fault), console.colour_out))
                << ": " << Shown(finding.setting) << " " << Shown(finding.message) << '\n';
    PrintEvidence(finding.evidence, console);
  }
  if (settings.empty()) {
    console.out << Paint(Style::kGreen, "ok", console.colour_out)
                << ": every threshold of the correction acts on some of the batch and not on all\n";
  }
}

void PrintTraining(const std::vector<RlTrainingFinding>& training, Console& console) {
  for (const RlTrainingFinding& finding : training) {
    console.out << (finding.is_note ? Paint(Style::kYellow, "note", console.colour_out)
                                    : Paint(Style::kRed, RlTrainingFaultName(finding.fault),
                                            console.colour_out))
                << ": " << Shown(finding.message) << '\n';
    PrintEvidence(finding.evidence, console);
    if (!finding.is_note) console.out << "  " << RlTrainingFaultAdvice(finding.fault) << '\n';
  }
}

}  // namespace

int RunRlLint(const RlLintOptions& options, Console& console) {
  const bool with_settings =
      !options.correction.rule.empty() || !options.correction.framework.dialect.empty();
  RlCorrection correction;
  if (with_settings) {
    auto given = RlCorrectionOf(options.correction, console);
    if (!given.has_value()) return ReportError(given.error(), console);
    correction = std::move(*given);
  }
  const auto dump = ReadRlStep(options.step, console);
  if (!dump.has_value()) return ReportError(dump.error(), console);
  const auto batch = dump->Batch();
  if (!batch.has_value()) return ReportError(batch.error(), console);
  const auto report = LintRl(*batch);
  if (!report.has_value()) return ReportError(report.error(), console);
  std::vector<RlSettingFinding> settings;
  if (with_settings) {
    auto found = LintCorrection(*batch, correction, options.step.threads);
    if (!found.has_value()) return ReportError(found.error(), console);
    settings = std::move(*found);
  }
  const auto training = LintTraining(*batch, {options.bypass, correction}, options.step.threads);
  if (!training.has_value()) return ReportError(training.error(), console);
  const bool unsure = report->fault() == RlFault::kUnsure;
  bool fault = !report->findings.empty() && !unsure;
  for (const RlSettingFinding& finding : settings) fault |= !finding.is_note();
  for (const RlTrainingFinding& finding : *training) fault |= !finding.is_note;
  if (console.json) {
    console.out << LintJson(*report, with_settings ? &settings : nullptr, &*training);
  } else {
    PrintReport(*report, console);
    if (with_settings && report->tokens > 0) PrintSettings(settings, console);
    PrintTraining(*training, console);
  }
  if (fault) return kExitViolated;
  return unsure ? kExitInconclusive : kExitOk;
}

}  // namespace kcc::cli
