// kcc judge and kcc run: verdicts from a summary, or from two kernels at once. The exit code is the
// verdict, so that CI needs nothing else.
#include <filesystem>
#include <span>
#include <thread>

#include "apps/kcc/commands.h"
#include "apps/kcc/evidence.h"
#include "apps/kcc/judging.h"
#include "apps/kcc/measuring.h"
#include "apps/kcc/reporting.h"
#include "apps/kcc/safe_output.h"
#include "kcc/contract/canonical.h"
#include "kcc/judge/judge.h"
#include "kcc/measure/exact_quantiles.h"
#include "kcc/register/promotion_evidence.h"
#include "kcc/report/from_summary.h"
#include "kcc/report/next_steps.h"
#include "kcc/report/worst_context.h"
#include "kcc/summary/file.h"

namespace kcc::cli {
namespace {

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

// What a run writes beside its verdict. A report whose verdict was not printed is none.
Result<> WriteFiles(const ReportData& report, const Summary& summary,
                    const std::string& summary_file, const JudgeFlags& flags, bool printed,
                    std::optional<ReportDirectory>& directory) {
  if (!summary_file.empty()) KCC_TRY_VOID(WriteSummaryFile(summary_file, summary));
  if (directory && printed) KCC_TRY_VOID(directory->Write(report, flags.formats));
  return {};
}

// TRAIN:INFER, which must be traces that the summary was measured from.
Result<PairedTraces> OpenSource(const std::string& name, const Summary& summary) {
  KCC_TRY(const auto names, SplitTraces(name));
  KCC_TRY(PairedTraces pair, OpenPair(names.first, names.second, {}));
  for (const Source& source : summary.sources) {
    if (source.train.identity == pair.train().identity() &&
        source.infer.identity == pair.infer().identity()) {
      return pair;
    }
  }
  return InvalidError("the summary was not measured from the traces '" + name +
                      "'; name those it was, or leave --traces out");
}

// What is measured beside the contract: what --also names, and what the register's promotions
// compare. None: an error was printed.
std::optional<std::vector<Contract>> ContractsAlso(const RunOptions& options,
                                                   const Contract& contract, Console& console,
                                                   int* exit_code) {
  std::vector<Contract> also;
  for (const std::string& file : options.also) {
    auto read = RequireContract(file, console, exit_code);
    if (!read) return {};
    also.push_back(std::move(read->contract));
  }
  Result<std::vector<Contract>> beside = ContractsBeside(contract, options.flags, console);
  if (!beside.has_value()) {
    *exit_code = ReportError(beside.error(), console);
    return {};
  }
  for (Contract& one : *beside) also.push_back(std::move(one));
  return also;
}

}  // namespace

// The verdict is printed before any file is written: a full disk may cost the report, and never the
// answer to a measurement of hours.
int JudgeAndReport(const ValidContract& contract, const std::string& file, const Summary& summary,
                   const std::string& summary_file, std::span<const PairedTraces> traces,
                   const ReportInputs& inputs, const JudgeFlags& flags,
                   std::optional<ReportDirectory>& directory, Console& console, const Plan* shown,
                   RunLog* log) {
  const Judgement judgement = Judge(contract.contract, summary, ToJudgeOptions(flags));
  ReportData report =
      MakeReport(contract.contract, DisplayName(file), Version(), summary, judgement, shown);
  report.inputs = inputs;
  Result<> done;
  for (const PairedTraces& pair : traces) {
    if (done.has_value()) done = AddWorstContext(pair, &report);
  }
  PrintReport(report, flags.all, console);
  console.out.flush();
  if (done.has_value()) {
    const bool printed = static_cast<bool>(console.out);
    done = WriteFiles(report, summary, summary_file, flags, printed, directory);
  }
  if (!done.has_value()) return ReportError(done.error(), console);
  const Result<std::string> recorded =
      RecordVerdict(contract, summary, judgement, report, flags, console, log);
  if (!recorded.has_value()) return ReportError(recorded.error(), console);
  if (directory && !console.json) {
    console.out << "\nreport in "
                << Shown((std::filesystem::path(flags.report) / "report.html").string()) << '\n';
  }
  if (!recorded->empty() && !console.json) {
    console.out << "\nrecorded as evaluation " << *recorded << '\n';
  }
  KeepIfPrinted(directory, console);
  return ExitCodeOf(judgement, flags.fail_on);
}

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

int RunJudge(const JudgeCommandOptions& options, Console& console) {
  auto directory = TakeReportDirectory(options.flags.report, options.flags.formats);
  if (!directory.has_value()) return ReportError(directory.error(), console);
  const Result<> recordable = CheckRecording(options.flags, console);
  if (!recordable.has_value()) return ReportError(recordable.error(), console);
  int exit_code = kExitOk;
  const auto contract = RequireContract(options.contract, console, &exit_code);
  if (!contract) return exit_code;
  std::error_code ignored;
  if (std::filesystem::is_directory(options.summary, ignored)) {
    return ReportError(
        InvalidError("is a directory, and kcc judge takes a summary (.kccs, from kcc "
                     "measure); kcc run CONTRACT TRAIN INFER judges two traces",
                     Place{options.summary}),
        console);
  }
  Result<Summary> summary = ReadSummaryFile(options.summary);
  if (!summary.has_value()) return ReportError(summary.error(), console);
  std::vector<PairedTraces> traces;
  for (const std::string& name : options.traces) {
    Result<PairedTraces> pair = OpenSource(name, *summary);
    if (!pair.has_value()) return ReportError(pair.error(), console);
    traces.push_back(std::move(*pair));
  }
  if (traces.size() == 1) {
    const auto threads = static_cast<int>(std::thread::hardware_concurrency());
    const Result<> exact = AddExactQuantiles(traces[0], contract->contract, threads, &*summary);
    if (!exact.has_value()) return ReportError(exact.error(), console);
  }
  ReportInputs inputs;
  if (options.traces.size() == 1) {
    const auto names = SplitTraces(options.traces[0]);  // OpenSource has split it already
    if (names.has_value()) inputs = {KeptInput(names->first), KeptInput(names->second), ""};
  }
  return JudgeAndReport(*contract, options.contract, *summary, "", traces, inputs, options.flags,
                        *directory, console);
}

int RunRun(const RunOptions& options, Console& console) {
  auto directory = TakeReportDirectory(options.flags.report, options.flags.formats);
  if (!directory.has_value()) return ReportError(directory.error(), console);
  const Result<> recordable = CheckRecording(options.flags, console);
  if (!recordable.has_value()) return ReportError(recordable.error(), console);
  int exit_code = kExitOk;
  const auto contract = RequireContract(options.contract, console, &exit_code);
  if (!contract) return exit_code;
  const Result<> writable = CheckWritable(options.summary);
  if (!writable.has_value()) return ReportError(writable.error(), console);
  std::optional<PairedTraces> traces;
  // What is recorded may be evidence of a promotion, which counts clean requests.
  const Contract measured =
      options.flags.record.uri.empty() ? contract->contract : MeasuredContract(contract->contract);
  const auto also = ContractsAlso(options, contract->contract, console, &exit_code);
  if (!also) return exit_code;
  RunLog log;
  RunLog* kept = options.flags.record.uri.empty() ? nullptr : &log;
  const Result<Summary> summary =
      MeasureSides(options.train, options.infer, {&measured, *also}, options.measure,
                   options.kernels, console, &traces, kept);
  if (!summary.has_value()) return ReportError(summary.error(), console);
  std::span<const PairedTraces> known;
  if (traces) known = {&*traces, 1};
  const ReportInputs inputs{KeptInput(options.train), KeptInput(options.infer),
                            options.kernels.requests};
  // Whatever else was measured beside it, the report is of what the contract asked for.
  const Plan shown = Plan::FromContract(measured);
  return JudgeAndReport(*contract, options.contract, *summary, options.summary, known, inputs,
                        options.flags, *directory, console, &shown, kept);
}

}  // namespace kcc::cli
