// kcc rl judge: one command from a trainer's dump to a verdict. The rows become requests of the
// same measurement that kcc run makes of two kernels; from the summary on everything is the same.

#include <algorithm>

#include "apps/kcc/commands.h"
#include "apps/kcc/judging.h"
#include "apps/kcc/reporting.h"
#include "apps/kcc/safe_output.h"
#include "kcc/rl/dump_measure.h"
#include "kcc/rl/lint.h"
#include "kcc/summary/file.h"

namespace kcc::cli {
namespace {

void PrintWarning(std::string_view text, Console& console) {
  console.err << Paint(Style::kYellow, "warning", console.colour_err) << ": " << Shown(text)
              << '\n';
}

// What is wrong with the arrays, before what they say is judged. It does not change the verdict: a
// mistake looks like a gap, and the gap is there.
Result<> WarnOfFaults(const RlDump& dump, Console& console) {
  KCC_TRY(const RlBatch batch, dump.Batch());
  KCC_TRY(const RlLintReport report, LintRl(batch));
  for (const RlFinding& finding : report.findings) {
    PrintWarning(std::string(RlFaultName(finding.fault)) + ": " + finding.message + "; " +
                     std::string(RlFaultAdvice(finding.fault)),
                 console);
  }
  return {};
}

// A dump names no engine, so a clause that asks for one fails whatever the numbers are.
void WarnOfUnnamedEngine(const Contract& contract, std::string_view stage, Console& console) {
  for (const Clause& clause : contract.clauses) {
    const bool judged = std::any_of(clause.stages.begin(), clause.stages.end(),
                                    [&](Stage each) { return Name(each) == stage; });
    const auto& fields = clause.fields;
    if (!judged || std::find(fields.begin(), fields.end(), "kernel_fingerprint") == fields.end()) {
      continue;
    }
    PrintWarning("clause " + clause.id +
                     " asks which engine sampled, and a dump does not say; name it with "
                     "--infer-fingerprint NAME, such as 'vllm 0.10.2, bf16'",
                 console);
    return;
  }
}

Result<Summary> MeasureStep(const RlJudgeOptions& options, const Contract& contract,
                            Console& console) {
  for (const std::string& path : options.step.files) {
    if (!path.ends_with(".kccrl")) continue;
    return InvalidError(
        "a summary of diagnostics holds no tokens to judge under a contract; give the dump it was "
        "made from",
        Place{path});
  }
  KCC_TRY(const RlDump dump, ReadRlStep(options.step, console));
  KCC_TRY_VOID(WarnOfFaults(dump, console));
  if (options.infer_fingerprint.empty()) {
    WarnOfUnnamedEngine(contract, options.flags.stage, console);
  }
  RlMeasureOptions how;
  how.temperature = options.temperature.value_or(1);
  // A dump does not say how its tokens were drawn. Unless the user does, nothing is estimated from
  // them: greedy or top-p tokens are no sample of the distribution.
  how.sampling_temperature = options.sampling_temperature.value_or(0);
  how.train_fingerprint = options.train_fingerprint;
  how.infer_fingerprint = options.infer_fingerprint;
  how.request_set = !contract.request_set.empty();
  how.threads = options.step.threads;
  return MeasureRlDump(dump, Plan::FromContract(contract), how);
}

// Two traces are two kernels, and say for themselves what flags say of a dump.
int RunTraces(const RlJudgeOptions& options, Console& console) {
  const std::vector<std::string>& files = options.step.files;
  if (files.size() != 2) {
    return ReportError(InvalidError("traces come in pairs: the train one, then the infer one"),
                       console);
  }
  RunOptions run;
  run.contract = options.contract;
  run.train = files[0];
  run.infer = files[1];
  run.summary = options.summary;
  run.measure.threads = options.step.threads;
  run.measure.temperature = options.temperature;
  run.kernels.sampling_temperature = options.sampling_temperature;
  run.flags = options.flags;
  return RunRun(run, console);
}

}  // namespace

Result<RlDump> ReadRlStep(const RlStepFlags& step, const std::vector<std::string>& files,
                          Console& console) {
  KCC_TRY(RlNameMap names, ParseNameMap(step.names));
  Result<RlDump> read = ReadRlDump(files, {step.slice_by, std::move(names)});
  if (!read.has_value()) {
    return files.size() == 1 ? Error(read.error()).At(Place{files[0]}) : read.error();
  }
  RlDump dump = std::move(*read);
  for (const std::string& warning : dump.warnings) PrintWarning(warning, console);
  return dump;
}

int RunRlJudge(const RlJudgeOptions& options, Console& console) {
  if (IsTracePair(options.step.files)) return RunTraces(options, console);
  auto directory = TakeReportDirectory(options.flags.report, options.flags.formats);
  if (!directory.has_value()) return ReportError(directory.error(), console);
  const Result<> recordable = CheckRecording(options.flags, console);
  if (!recordable.has_value()) return ReportError(recordable.error(), console);
  int exit_code = kExitOk;
  const auto contract = RequireContract(options.contract, console, &exit_code);
  if (!contract) return exit_code;
  const Result<Summary> summary = MeasureStep(options, contract->contract, console);
  if (!summary.has_value()) return ReportError(summary.error(), console);
  return JudgeAndReport(*contract, options.contract, *summary, options.summary, {}, {},
                        options.flags, *directory, console);
}

}  // namespace kcc::cli
