// kcc score and kcc generate: a trace from a kernel, of given continuations or of its own.
#include <algorithm>
#include <filesystem>
#include <string>

#include "apps/kcc/commands.h"
#include "apps/kcc/kernels.h"
#include "apps/kcc/progress.h"
#include "apps/kcc/safe_output.h"
#include "kcc/kernel/stream.h"
#include "kcc/trace/reader.h"

namespace kcc::cli {
namespace {

Result<> MakeTrace(const ScoreOptions& options, bool generate, Console& console) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(options.output, ignored);
  if (std::filesystem::exists(status)) {  // said before an engine has to start
    return InvalidError("exists already; choose another name", Place{options.output});
  }
  const std::vector<KernelScheme> schemes = KernelSchemes(console);
  KCC_TRY_VOID(CheckKernelUri(options.kernel, schemes));  // and this before requests are read
  const RequestUse use = generate ? RequestUse::kGenerate : RequestUse::kScore;
  KCC_TRY(const std::unique_ptr<RequestSource> requests,
          OpenRequests(options.kernels, use, SampledBy::kDataset));
  const SystemClock clock;
  // How much a kernel will write is not known before, so its requests are counted then.
  Progress progress(console, clock, generate ? "requests" : "tokens");
  const Interruptible interruptible(console);
  StreamOptions stream = StreamOptionsOf(options.kernels, interruptible);
  const RequestTotals totals = requests->totals();
  stream.measure.progress = [&](const MeasureProgress& at) {
    progress.Show(generate ? at.requests : at.tokens,
                  generate ? totals.requests : totals.output_tokens, 0);
  };
  progress.Wait("starting the kernel");
  NamedKernel kernel{options.kernel, nullptr};
  KCC_TRY(kernel.kernel,
          OpenKernel(options.kernel, OpenOptionsOf(options.kernels, interruptible), schemes));
  progress.Begin(generate ? totals.requests : totals.output_tokens);
  const Result<int64_t> tokens =
      generate ? GenerateToTrace(kernel, *requests, options.sampling, options.output, stream)
               : ScoreToTrace(kernel, *requests, options.output, stream);
  if (!tokens.has_value()) return tokens.error();
  return {};
}

int Run(const ScoreOptions& options, bool generate, Console& console) {
  const Result<> made = MakeTrace(options, generate, console);
  if (!made.has_value()) return ReportError(made.error(), console);
  const Result<TraceReader> trace = TraceReader::Open(options.output);
  if (!trace.has_value()) return ReportError(trace.error(), console);
  const std::vector<Request>& requests = trace->requests();
  const auto failed = static_cast<size_t>(
      std::count_if(requests.begin(), requests.end(),
                    [](const Request& request) { return request.Flag("failed").value_or(false); }));
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field(generate ? "kccGenerate" : "kccScore", 1);
    json.Field("directory", options.output).Field("identity", trace->identity());
    json.Field("kernelFingerprint", trace->info().kernel_fingerprint);
    json.Field("requests", requests.size()).Field("tokens", trace->token_count());
    if (failed > 0) json.Field("failed", failed);
    json.EndObject();
    console.out << json.Take();
    return kExitOk;
  }
  console.out << Shown(options.output) << ": " << Counted(requests.size(), "request")
              << (failed > 0 ? " (" + std::to_string(failed) + " failed)" : "") << ", "
              << Counted(static_cast<size_t>(trace->token_count()), "token") << " from "
              << Shown(trace->info().kernel_fingerprint) << '\n';
  return kExitOk;
}

}  // namespace

int RunScore(const ScoreOptions& options, Console& console) {
  return Run(options, /*generate=*/false, console);
}

int RunGenerate(const ScoreOptions& options, Console& console) {
  return Run(options, /*generate=*/true, console);
}

}  // namespace kcc::cli
