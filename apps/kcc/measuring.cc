#include "apps/kcc/measuring.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "apps/kcc/kernels.h"
#include "apps/kcc/progress.h"
#include "kcc/device/cuda_device.h"
#include "kcc/kernel/stream.h"
#include "kcc/measure/measure.h"
#include "kcc/trace/request_set.h"

namespace kcc::cli {
namespace {

Result<MeasureOptions> MeasureOptionsOf(const MeasureFlags& flags, Progress* progress = nullptr) {
  MeasureOptions options;
  if (!flags.shard.empty()) {
    KCC_TRY(options.shard, ParseShard(flags.shard));
  }
  if (!flags.target.empty()) {
    KCC_TRY(options.target, ParseTarget(flags.target));
  }
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  options.threads = flags.threads > 0 ? flags.threads : std::max(1, cores);
  if (progress == nullptr) return options;
  options.progress = [progress](const MeasureProgress& at) {
    progress->Show(at.tokens, at.tokens_total, at.bytes);
  };
  return options;
}

// Null for the CPU.
Result<std::unique_ptr<RowDevice>> DeviceOf(const MeasureFlags& flags) {
  if (flags.device == "cuda") return OpenCudaDevice(flags.cuda_library);
  if (flags.cuda_library.empty()) return std::unique_ptr<RowDevice>();
  return InvalidError("--cuda-library is for --device cuda");
}

PairingOptions PairingOptionsOf(const MeasureFlags& flags) {
  PairingOptions pairing;
  pairing.ignore_model_digest = flags.other_model;
  pairing.temperature = flags.temperature;
  return pairing;
}

// A trace knows who chose its tokens, and often the tokens themselves.
Result<std::unique_ptr<RequestSource>> RequestsFor(const std::optional<std::string>& trace,
                                                   const KernelFlags& kernels) {
  if (kernels.requests.empty() && kernels.repeat > 1 && trace) {
    return InvalidError(
        "--repeat asks what --requests names; a trace was asked already: record it with kcc score "
        "--repeat " +
            std::to_string(kernels.repeat) + ", and its repeats are asked of the other kernel",
        Place{*trace});
  }
  if (kernels.requests.empty()) {
    if (trace) return OpenTraceRequests(*trace);
    return InvalidError("two engines need to be told what to score: give --requests R.jsonl");
  }
  SampledBy sampled_by = SampledBy::kDataset;
  if (trace) {
    KCC_TRY(const TraceReader reader, TraceReader::Open(*trace));
    sampled_by = reader.info().sampled_by;
  }
  return OpenRequests(kernels, RequestUse::kScore, sampled_by);
}

// The requests that both traces were asked, which must be exactly theirs. `asked` owns them.
Result<AskedRequests> AskedBy(const PairedTraces& pair, const KernelFlags& kernels,
                              std::vector<KernelRequest>* asked) {
  AskedRequests by_id;
  if (kernels.requests.empty()) return by_id;
  KCC_TRY(const std::unique_ptr<RequestSource> source,
          OpenRequests(kernels, RequestUse::kScore, pair.infer().info().sampled_by));
  KCC_TRY(const RequestSet traced, RequestSet::Of(pair.train()));
  asked->reserve(static_cast<size_t>(source->totals().requests));
  RequestSet wanted;
  const bool generated = pair.mode() == TraceMode::kGenerated;
  KernelRequest request;
  while (true) {
    KCC_TRY(const bool more, source->Next(&request));
    if (!more) break;
    const auto output =
        std::span(request.tokens).subspan(static_cast<size_t>(request.prompt_tokens));
    wanted.Add(request.request.id, request.prompt_tokens,
               generated ? std::span<const int32_t>() : output);
    const auto found = traced.requests().find(request.request.id);
    if (found == traced.requests().end() ||
        found->second != wanted.requests().at(request.request.id)) {
      return BrokenEvidenceError(
          "request '" + request.request.id +
              (found == traced.requests().end() ? "' was asked and is not in the traces"
                                                : "' has other tokens, or fewer, in the traces"),
          source->place());
    }
    request.tokens = {};
    asked->push_back(std::move(request));
    request = {};
  }
  for (const auto& [id, digest] : traced.requests()) {
    if (wanted.requests().contains(id)) continue;
    return BrokenEvidenceError("request '" + id + "' is in the traces and was not asked",
                               source->place());
  }
  for (const KernelRequest& one : *asked) by_id[one.request.id] = one.asked();
  return by_id;
}

// Where the token ids of two traces are. Signatures of a generated trace are of decoding; a replay
// scores given tokens, and would find others.
void LogTraces(const PairedTraces& pair, const std::string& train, const KernelFlags& kernels,
               RunLog* log) {
  log->AddTraces(pair);
  if (pair.mode() == TraceMode::kGenerated) {
    log->SetNoSource(InvalidError("a replay scores given tokens, and these traces are generated"));
    return;
  }
  // Opened a second time, a pipe is empty or waits for a writer that does not come.
  std::error_code unknown;
  if (!kernels.requests.empty() && !std::filesystem::is_regular_file(kernels.requests, unknown) &&
      !std::filesystem::is_directory(kernels.requests, unknown)) {
    log->SetNoSource(
        InvalidError("the requests came through a pipe, which can be read once; give a file"));
    return;
  }
  Result<std::unique_ptr<RequestSource>> source =
      kernels.requests.empty()
          ? OpenTraceRequests(train)
          : OpenRequests(kernels, RequestUse::kScore, pair.infer().info().sampled_by);
  if (source.has_value()) {
    log->SetSource(std::move(*source));
  } else {
    log->SetNoSource(source.error());
  }
}

Plan PlanOf(const MeasuredFor& by) {
  return by.contract == nullptr ? Plan::Default() : Plan::FromContracts(*by.contract, by.also);
}

}  // namespace

Result<> CheckWritable(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return {};
  std::error_code unknown;
  const fs::file_status status = fs::status(path, unknown);
  if (fs::is_directory(status)) return InvalidError("is a directory; name a file", Place{path});
  if (fs::exists(status) && !fs::is_regular_file(status)) return {};  // written through
  const fs::path parent = fs::path(path).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  if (::access(directory.c_str(), W_OK | X_OK) == 0) return {};
  return IoError("cannot be written: " + std::string(std::strerror(errno)), Place{path});
}

Result<PairedTraces> OpenPair(const std::string& train, const std::string& infer,
                              const MeasureFlags& flags) {
  KCC_TRY_VOID(MeasureOptionsOf(flags));  // a wrong flag is said before a missing trace
  KCC_TRY(TraceReader train_reader, TraceReader::Open(train));
  KCC_TRY(TraceReader infer_reader, TraceReader::Open(infer));
  return PairedTraces::Make(std::move(train_reader), std::move(infer_reader),
                            PairingOptionsOf(flags));
}

Result<Summary> MeasurePair(const PairedTraces& pair, const MeasuredFor& by,
                            const MeasureFlags& flags, Console& console,
                            const KernelFlags& kernels) {
  const SystemClock clock;
  Progress progress(console, clock);
  KCC_TRY(MeasureOptions options, MeasureOptionsOf(flags, &progress));
  std::vector<KernelRequest> requests;
  KCC_TRY(const AskedRequests asked, AskedBy(pair, kernels, &requests));
  KCC_TRY(const std::unique_ptr<RowDevice> device, DeviceOf(flags));
  options.device = device.get();
  options.asked = &asked;
  options.verify = flags.verify;
  options.exact_for = by.contract;
  options.request_set = by.contract != nullptr && !by.contract->request_set.empty();
  return Measure(pair, PlanOf(by), options);
}

Result<Summary> MeasureSides(const std::string& train, const std::string& infer,
                             const MeasuredFor& by, const MeasureFlags& flags,
                             const KernelFlags& kernels, Console& console,
                             std::optional<PairedTraces>* traces, RunLog* log) {
  KCC_TRY(const std::optional<std::string> train_trace, TraceDirectoryOf(train));
  KCC_TRY(const std::optional<std::string> infer_trace, TraceDirectoryOf(infer));
  if (train_trace && infer_trace) {
    KCC_TRY(PairedTraces pair, OpenPair(*train_trace, *infer_trace, flags));
    Result<Summary> summary = MeasurePair(pair, by, flags, console, kernels);
    if (log != nullptr) LogTraces(pair, *train_trace, kernels, log);
    if (traces != nullptr) *traces = std::move(pair);
    return summary;
  }
  if (!flags.shard.empty())
    return InvalidError("--shard splits traces, not what engines are asked");
  if (flags.verify)
    return InvalidError("--verify reads traces; what engines say is checked anyway");
  const std::vector<KernelScheme> schemes = KernelSchemes(console);
  KCC_TRY_VOID(CheckKernelUri(train, schemes));
  KCC_TRY_VOID(CheckKernelUri(infer, schemes));
  KCC_TRY(std::unique_ptr<RequestSource> requests,
          RequestsFor(train_trace ? train_trace : infer_trace, kernels));
  const SystemClock clock;
  Progress progress(console, clock);
  KCC_TRY(MeasureOptions measure, MeasureOptionsOf(flags, &progress));
  KCC_TRY(const std::unique_ptr<RowDevice> device, DeviceOf(flags));
  measure.device = device.get();
  // What engines take is their time, not that of the bytes they leave.
  measure.progress = [&progress](const MeasureProgress& at) {
    progress.Show(at.tokens, at.tokens_total, 0);
  };
  const Interruptible interruptible(console);
  StreamOptions options = StreamOptionsOf(kernels, interruptible);
  options.measure = measure;
  options.pairing = PairingOptionsOf(flags);
  progress.Wait(train_trace   ? "starting infer"
                : infer_trace ? "starting train"
                              : "starting train and infer");
  KCC_TRY(const KernelPair pair, OpenKernelPair(train, infer, OpenOptionsOf(kernels, interruptible),
                                                schemes, options.stop));
  progress.Begin(requests->totals().output_tokens);
  if (log == nullptr) return MeasureKernels(pair, *requests, PlanOf(by), options);
  options.observe = [log](const PairedTraces& traced, std::span<const KernelRequest> batch) {
    log->AddBatch(traced, batch);
    return Result<>();
  };
  Result<Summary> summary = MeasureKernels(pair, *requests, PlanOf(by), options);
  log->SetSource(std::move(requests));
  return summary;
}

}  // namespace kcc::cli
