// kcc measure and kcc merge: two kernels to a summary, summaries to one.
#include "apps/kcc/commands.h"
#include "apps/kcc/measuring.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/strings.h"
#include "kcc/summary/file.h"

namespace kcc::cli {
namespace {

void PrintSummary(const Summary& summary, const std::string& path, Console& console) {
  const SliceStats* all = summary.FindSlice("all");
  const uint64_t tokens = all == nullptr ? 0 : all->tokens;
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccSummary", 1).Field("file", path);
    json.Field("requests", summary.requests.size()).Field("tokens", tokens);
    json.Field("slices", summary.slices.size()).Field("plan", summary.plan.Digest());
    json.Field("complete", summary.Complete()).EndObject();
    console.out << json.Take();
    return;
  }
  console.out << Shown(path) << ": " << Counted(summary.requests.size(), "request") << ", "
              << Counted(tokens, "token") << ", " << Counted(summary.slices.size(), "slice");
  if (!summary.Complete()) {
    console.out << "; " << Counted(summary.RequestsMissing(), "request")
                << " of the traces not measured";
  }
  console.out << '\n';
}

int Write(const Summary& summary, const std::string& path, Console& console) {
  const Result<> written = WriteSummaryFile(path, summary);
  if (!written.has_value()) return ReportError(written.error(), console);
  PrintSummary(summary, path, console);
  return kExitOk;
}

}  // namespace

int RunMeasure(const MeasureCommandOptions& options, Console& console) {
  std::optional<ValidContract> contract;
  if (!options.contract.empty()) {
    int exit_code = kExitOk;
    contract = RequireContract(options.contract, console, &exit_code);
    if (!contract) return exit_code;
  }
  const Result<> writable = CheckWritable(options.output);
  if (!writable.has_value()) return ReportError(writable.error(), console);
  const Result<Summary> summary =
      MeasureSides(options.train, options.infer, contract ? &contract->contract : nullptr,
                   options.flags, options.kernels, console);
  if (!summary.has_value()) return ReportError(summary.error(), console);
  return Write(*summary, options.output, console);
}

int RunMerge(const MergeOptions& options, Console& console) {
  Result<Summary> merged = ReadSummaryFile(options.files[0]);
  for (size_t i = 1; i < options.files.size() && merged.has_value(); ++i) {
    const Result<Summary> next = ReadSummaryFile(options.files[i]);
    if (!next.has_value()) return ReportError(next.error(), console);
    const Result<> done = MergeInto(*next, &*merged);
    if (!done.has_value()) {
      return ReportError(Error(done.error()).At(Place{options.files[i]}), console);
    }
  }
  if (!merged.has_value()) return ReportError(merged.error(), console);
  return Write(*merged, options.output, console);
}

}  // namespace kcc::cli
