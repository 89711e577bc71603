// kcc judge and kcc run: verdicts from a summary, or from two kernels at once. The exit code is the
// verdict, so that CI needs nothing else.
#include <filesystem>

#include "apps/kcc/commands.h"
#include "apps/kcc/measuring.h"
#include "apps/kcc/reporting.h"
#include "kcc/contract/canonical.h"
#include "kcc/judge/judge.h"
#include "kcc/report/from_summary.h"
#include "kcc/summary/file.h"

namespace kcc::cli {
namespace {

JudgeOptions ToJudgeOptions(const JudgeFlags& flags) {
  JudgeOptions options;
  for (const Stage stage : {Stage::kOffline, Stage::kShadow, Stage::kCanary, Stage::kFull}) {
    if (flags.stage == Name(stage)) options.stage = stage;
  }
  for (const Population about : {Population::kEvaluationSet, Population::kTraffic}) {
    if (flags.about == Name(about)) options.about = about;
  }
  return options;
}

// Violations below the level that --fail-on names are reported but do not fail the run.
int ExitCodeOf(const Judgement& judgement, const std::string& fail_on) {
  int code = kExitOk;
  for (const ClauseVerdict& clause : judgement.clauses) {
    const bool ignored = Name(clause.level) < std::string_view(fail_on);
    if (clause.verdict == Verdict::kViolated && !ignored) return kExitViolated;
    if (clause.verdict == Verdict::kError) code = kExitError;
    if (clause.verdict == Verdict::kInconclusive && code == kExitOk && !ignored) {
      code = kExitInconclusive;
    }
  }
  return judgement.clauses.empty() ? kExitInconclusive : code;
}

int JudgeAndReport(const ValidContract& contract, const std::string& file, const Summary& summary,
                   const JudgeFlags& flags, Console& console) {
  const Judgement judgement = Judge(contract.contract, summary, ToJudgeOptions(flags));
  const ReportData report =
      MakeReport(contract.contract, DisplayName(file), Version(), summary, judgement);
  if (!flags.report.empty()) {
    const Result<> written = WriteReports(report, flags.report, flags.sarif);
    if (!written.has_value()) return ReportError(written.error(), console);
  }
  PrintReport(report, flags.all, console);
  if (!flags.report.empty() && !console.json) {
    console.out << "\nreport in " << (std::filesystem::path(flags.report) / "report.html").string()
                << '\n';
  }
  return ExitCodeOf(judgement, flags.fail_on);
}

}  // namespace

int RunJudge(const JudgeCommandOptions& options, Console& console) {
  int exit_code = kExitOk;
  const auto contract = RequireContract(options.contract, console, &exit_code);
  if (!contract) return exit_code;
  const Result<Summary> summary = ReadSummaryFile(options.summary);
  if (!summary.has_value()) return ReportError(summary.error(), console);
  return JudgeAndReport(*contract, options.contract, *summary, options.flags, console);
}

int RunRun(const RunOptions& options, Console& console) {
  int exit_code = kExitOk;
  const auto contract = RequireContract(options.contract, console, &exit_code);
  if (!contract) return exit_code;
  const Result<Summary> summary = MeasureSides(options.train, options.infer, &contract->contract,
                                               options.measure, options.kernels, console);
  if (!summary.has_value()) return ReportError(summary.error(), console);
  if (!options.summary.empty()) {
    const Result<> written = WriteSummaryFile(options.summary, *summary);
    if (!written.has_value()) return ReportError(written.error(), console);
  }
  return JudgeAndReport(*contract, options.contract, *summary, options.flags, console);
}

}  // namespace kcc::cli
