#include "kcc/kernel/stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/kernel/private_dir.h"
#include "kcc/kernel/request_batches.h"
#include "kcc/kernel/trace_kernel.h"
#include "kcc/measure/parallel.h"
#include "kcc/summary/population.h"
#include "kcc/trace/request_set.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

// Runs both at once. If one fails the other is told to stop; the error is that of the first.
// First in time, not in the order of the sides: the one that was stopped fails too, with
// "interrupted", and would hide the cause.
Result<> Both(const std::function<Result<>()>& train, const std::function<Result<>()>& infer,
              const std::function<void()>& stop) {
  std::atomic<int> first_failed{-1};
  std::array<Result<>, 2> done;
  const auto run = [&](int side, const std::function<Result<>()>& work) {
    Result<>& mine = done[static_cast<size_t>(side)];
    std::exception_ptr thrown;
    try {
      mine = work();
    } catch (...) {
      thrown = std::current_exception();
    }
    int none = -1;
    const bool failed = thrown != nullptr || !mine.has_value();
    if (failed && first_failed.compare_exchange_strong(none, side) && stop) stop();
    if (thrown != nullptr) std::rethrow_exception(thrown);
  };
  ParallelFor(2, [&](size_t side) { run(static_cast<int>(side), side == 0 ? train : infer); });
  return first_failed < 0 ? Result<>() : std::move(done[static_cast<size_t>(first_failed)]);
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// What a kernel is, in one line, for a stream's identity.
std::string InfoJson(const KernelInfo& info) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("fingerprint", info.fingerprint).Field("modelDigest", info.model_digest);
  json.Field("vocabSize", info.vocab_size).Field("evidence", Name(info.evidence));
  json.Field("semantics", Name(info.semantics)).Field("path", Name(info.path));
  json.Field("temperature", info.temperature).Key("options").BeginArray();
  for (const KernelOption& option : info.options) {
    json.BeginArray().Value(option.name).Value(option.value).Value(option.source).EndArray();
  }
  json.EndArray().EndObject();
  return json.Take();
}

// SHA-256 over a kernel and the requests it was asked, in order: what a trace's identity is for
// evidence that was never one trace.
class StreamIdentity {
 public:
  explicit StreamIdentity(const KernelInfo& info) {
    hash_.Update("kcc stream 1\n");
    hash_.Update(InfoJson(info));
  }
  void Add(const KernelRequest& request) {
    std::string line = RequestJson(request.request) + "\n";
    for (const int32_t token : request.tokens) line += std::to_string(token) + " ";
    hash_.Update(line + "\n");
  }
  std::string Finish() { return hash_.Finish(); }

 private:
  Sha256 hash_;
};

// Who chose the tokens, and at which temperature, is known to whoever asked, not to the kernel that
// scored them.
Result<> StampSampling(const std::string& directory, const RequestSource& requests) {
  constexpr size_t kBytesMax = size_t{1} << 20;
  const std::string path = directory + "/trace.json";
  KCC_TRY(const std::string text, ReadRegularFile(path, kBytesMax));
  KCC_TRY(TraceInfo info, ParseTraceInfo(text, path));
  const TraceInfo before = info;
  SetSampling(requests, &info);
  if (info.sampled_by == before.sampled_by &&
      info.sampling_temperature == before.sampling_temperature &&
      info.sampling_altered == before.sampling_altered) {
    return {};
  }
  if (info.format == 1) info.format = kTraceFormat;  // which has room for both temperatures
  return WriteScratchFile(path, TraceInfoJson(info));
}

Result<> ScoreBatch(const NamedKernel& kernel, std::span<const KernelRequest> batch,
                    const std::string& directory, const RequestSource& requests) {
  KCC_TRY_VOID(kernel.kernel->Score(batch, directory));
  return StampSampling(directory, requests);
}

// Invariant after every batch: summary_, the two identities and request_set_ speak of the same
// requests, those of all batches so far, and both directories are gone. A batch that fails ends the
// run, and no summary leaves it: there is no way to a verdict about the batches that went well.
//
// The identities hash the kernels and the requests in order, and nothing that tells where a batch
// ended. So `--batch 1` and `--batch 64` give the same bytes.
class Stream {
 public:
  Stream(const KernelPair& pair, RequestSource& requests, const Plan& plan,
         const StreamOptions& options, PrivateDir scratch)
      : pair_(pair),
        requests_(requests),
        plan_(plan),
        options_(options),
        scratch_(std::move(scratch)),
        train_directory_(scratch_ / "train"),
        infer_directory_(scratch_ / "infer"),
        train_identity_(pair.train.kernel->info()),
        infer_identity_(pair.infer.kernel->info()),
        summary_(plan) {
    totals_.requests_total = requests.totals().requests;
    totals_.tokens_total = requests.totals().output_tokens;
  }

  Result<Summary> Run() {
    RequestBatches batches(requests_, Limits());
    while (true) {
      KCC_TRY(const std::vector<KernelRequest> batch, batches.Next());
      if (batch.empty()) break;
      KCC_TRY_VOID(Add(batch));
    }
    if (!source_) return BrokenEvidenceError("there was no request to measure", requests_.place());
    source_->train.identity = train_identity_.Finish();
    source_->infer.identity = infer_identity_.Finish();
    source_->request_set = request_set_.Digest();
    summary_.sources = {*source_};
    return std::move(summary_);
  }

 private:
  BatchLimits Limits() const {
    const auto limits = [&](const NamedKernel& side) {
      return LimitsFor(side.kernel->info(), options_.batch_requests, options_.batch_bytes_max);
    };
    const BatchLimits train = limits(pair_.train);
    const BatchLimits infer = limits(pair_.infer);
    return {std::min(train.requests, infer.requests), std::min(train.tokens, infer.tokens)};
  }

  Result<> Add(std::span<const KernelRequest> batch) {
    KCC_TRY_VOID(Both([&] { return ScoreBatch(pair_.train, batch, train_directory_, requests_); },
                      [&] { return ScoreBatch(pair_.infer, batch, infer_directory_, requests_); },
                      options_.stop));
    Result<> measured = MeasureBatch(batch);
    if (!measured.has_value()) return Named(measured.error());
    for (const KernelRequest& request : batch) {
      train_identity_.Add(request);
      infer_identity_.Add(request);
      request_set_.Add(
          request.request.id, request.prompt_tokens,
          std::span(request.tokens).subspan(static_cast<size_t>(request.prompt_tokens)));
    }
    KCC_TRY_VOID(RemoveTree(train_directory_));
    return RemoveTree(infer_directory_);
  }

  Result<> MeasureBatch(std::span<const KernelRequest> batch) {
    KCC_TRY(TraceReader train, TraceReader::Open(train_directory_));
    KCC_TRY(TraceReader infer, TraceReader::Open(infer_directory_));
    KCC_TRY(const PairedTraces pair,
            PairedTraces::Make(std::move(train), std::move(infer), options_.pairing));
    // A kernel that may leave requests out would choose its own evaluation set.
    if (pair.requests().size() != batch.size()) {
      return BrokenEvidenceError("the kernels answered for " +
                                 std::to_string(pair.requests().size()) + " of " +
                                 std::to_string(batch.size()) + " requests");
    }
    MeasureOptions measure = options_.measure;
    measure.shard = {};
    measure.request_set = measure.verify = false;  // of the whole, not of a batch
    AskedRequests asked;
    for (const KernelRequest& request : batch) asked[request.request.id] = request.asked();
    measure.asked = &asked;
    MeasureProgress last;
    if (options_.measure.progress) {
      measure.progress = [&](const MeasureProgress& at) {
        last = at;
        MeasureProgress sum = totals_;
        sum.requests += at.requests;
        sum.tokens += at.tokens;
        sum.bytes += at.bytes;
        options_.measure.progress(sum);
      };
    }
    KCC_TRY(Summary part, Measure(pair, plan_, measure));
    if (options_.observe) KCC_TRY_VOID(options_.observe(pair, batch));
    totals_.requests += last.requests;
    totals_.tokens += last.tokens;
    totals_.bytes += last.bytes;
    // A batch is no source of its own; the stream is one, described below.
    Source source = std::move(part.sources.front());
    part.sources.clear();
    KCC_TRY_VOID(MergeInto(part, &summary_));
    return AddSource(std::move(source));
  }

  // One source for all batches; what describes the kernels must not change between them.
  Result<> AddSource(Source source) {
    source.train.identity.clear();
    source.infer.identity.clear();
    if (!source_) {
      source_ = std::move(source);
      return {};
    }
    // Counts add up; all else must be as in the first batch. The counts are made equal before the
    // comparison, so that whatever a Source gains later is compared too.
    const Source before = *source_;
    source_->requests += source.requests;
    source_->tokens += source.tokens;
    source_->manifest += source.manifest;
    // A batch may hold nothing that infer alone says.
    std::vector<std::string> alone;
    std::set_union(source.infer_alone.begin(), source.infer_alone.end(),
                   source_->infer_alone.begin(), source_->infer_alone.end(),
                   std::back_inserter(alone));
    source.infer_alone = source_->infer_alone = std::move(alone);
    source.requests = source_->requests;
    source.tokens = source_->tokens;
    source.manifest = source_->manifest;
    if (source != *source_) {
      return BrokenEvidenceError(
          "a kernel described itself differently in a later batch (fingerprint, model, evidence, "
          "semantics or temperature): " +
          before.train.kernel_fingerprint + " and " + before.infer.kernel_fingerprint + " became " +
          source.train.kernel_fingerprint + " and " + source.infer.kernel_fingerprint);
    }
    return {};
  }

  // Batches are gone when their message is read, so it names the kernels.
  Error Named(const Error& error) const {
    const auto named = [&](std::string text) {
      text = Replaced(std::move(text), train_directory_, pair_.train.name);
      return Replaced(std::move(text), infer_directory_, pair_.infer.name);
    };
    Place place = error.place();
    place.file = named(place.file);
    return Error(error.code(), named(error.message()), std::move(place));
  }

  const KernelPair& pair_;
  RequestSource& requests_;
  const Plan& plan_;
  const StreamOptions& options_;
  PrivateDir scratch_;
  std::string train_directory_;
  std::string infer_directory_;
  StreamIdentity train_identity_;
  StreamIdentity infer_identity_;
  RequestSet request_set_;
  Summary summary_;
  std::optional<Source> source_;
  MeasureProgress totals_;
};

}  // namespace

void SetSampling(const RequestSource& requests, TraceInfo* info) {
  info->sampled_by = requests.sampled_by();
  const bool sampled = requests.sampled_by() != SampledBy::kDataset;
  info->sampling_temperature = sampled ? requests.sampling_temperature() : std::nullopt;
  info->sampling_altered = sampled && requests.sampling_altered();
}

Result<KernelPair> OpenKernelPair(const std::string& train, const std::string& infer,
                                  const KernelOpenOptions& options,
                                  std::span<const KernelScheme> schemes,
                                  const std::function<void()>& stop) {
  KernelPair pair{{train, nullptr}, {infer, nullptr}};
  const auto open = [&](NamedKernel* side) -> Result<> {
    KCC_TRY(side->kernel, OpenKernel(side->name, options, schemes));
    return {};
  };
  KCC_TRY_VOID(Both([&] { return open(&pair.train); }, [&] { return open(&pair.infer); }, stop));
  return pair;
}

Result<Summary> MeasureKernels(const KernelPair& pair, RequestSource& requests, const Plan& plan,
                               const StreamOptions& options) {
  KCC_TRY(PrivateDir scratch, PrivateDir::Make(options.scratch));
  return Stream(pair, requests, plan, options, std::move(scratch)).Run();
}

}  // namespace kcc
