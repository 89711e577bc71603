// kcc measure and kcc merge: two traces to a summary, summaries to one.
#include <thread>

#include "apps/kcc/commands.h"
#include "apps/kcc/measuring.h"
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
  console.out << path << ": " << Counted(summary.requests.size(), "request") << ", "
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

Result<MeasureOptions> ToMeasureOptions(const MeasureFlags& flags) {
  MeasureOptions options;
  if (!flags.shard.empty()) {
    KCC_TRY(options.shard, ParseShard(flags.shard));
  }
  if (!flags.target.empty()) {
    KCC_TRY(options.target, ParseTarget(flags.target));
  }
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  options.threads = flags.threads > 0 ? flags.threads : std::max(1, cores);
  return options;
}

}  // namespace

Result<PairedTraces> OpenPair(const std::string& train, const std::string& infer,
                              const MeasureFlags& flags) {
  KCC_TRY_VOID(ToMeasureOptions(flags));  // a wrong flag is said before a missing trace
  PairingOptions pairing;
  pairing.ignore_model_digest = flags.other_model;
  pairing.temperature = flags.temperature;
  KCC_TRY(TraceReader train_reader, TraceReader::Open(train));
  KCC_TRY(TraceReader infer_reader, TraceReader::Open(infer));
  return PairedTraces::Make(std::move(train_reader), std::move(infer_reader), pairing);
}

Result<Summary> MeasurePair(const PairedTraces& pair, const Contract* contract,
                            const MeasureFlags& flags, Console& console) {
  KCC_TRY(MeasureOptions options, ToMeasureOptions(flags));
  const SystemClock clock;
  Progress progress(console.err, console.terminal_err, clock);
  options.progress = [&](const MeasureProgress& at) {
    progress.Show(at.tokens, at.tokens_total, at.bytes);
  };
  const Plan plan = contract == nullptr ? Plan::Default() : Plan::FromContract(*contract);
  return Measure(pair, plan, options);
}

int RunMeasure(const MeasureCommandOptions& options, Console& console) {
  std::optional<ValidContract> contract;
  if (!options.contract.empty()) {
    int exit_code = kExitOk;
    contract = RequireContract(options.contract, console, &exit_code);
    if (!contract) return exit_code;
  }
  const Result<PairedTraces> pair = OpenPair(options.train, options.infer, options.flags);
  if (!pair.has_value()) return ReportError(pair.error(), console);
  const Result<Summary> summary =
      MeasurePair(*pair, contract ? &contract->contract : nullptr, options.flags, console);
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
