// One kernel, many batches, one trace.
#include <optional>
#include <utility>
#include <vector>

#include "kcc/kernel/private_dir.h"
#include "kcc/kernel/request_batches.h"
#include "kcc/kernel/stream.h"
#include "kcc/kernel/trace_kernel.h"
#include "kcc/trace/reader.h"
#include "kcc/trace/writer.h"

namespace kcc {
namespace {

using BatchWork =
    std::function<Result<>(std::span<const KernelRequest> batch, const std::string& directory)>;

// Appends the batches' traces to one. The first batch decides what the trace says about its kernel.
// Request rows count from 0 in every batch, so a token's row is looked up in `rows`: the third
// request of a second batch of 16 is row 18.
class TraceCollector {
 public:
  // `sampling`: of a generated trace; null: of a scored one.
  TraceCollector(std::string directory, const RequestSource& requests, const Sampling* sampling)
      : directory_(std::move(directory)), requests_(requests), sampling_(sampling) {}

  Result<> Add(const std::string& batch_directory, std::span<const KernelRequest> batch) {
    KCC_TRY(const TraceReader reader, TraceReader::Open(batch_directory));
    if (!writer_) {
      TraceInfo info = reader.info();
      info.requests.reset();
      info.tokens.reset();
      if (info.mode == TraceMode::kScored) SetSampling(requests_, &info);
      info.format = kTraceFormat;
      KCC_TRY(TraceWriter::Options options, WriterOptionsFor(reader));
      options.rows_checked = true;  // by the kernel that made the batch
      KCC_TRY(TraceWriter writer, TraceWriter::Create(directory_, std::move(info), options));
      writer_.emplace(std::move(writer));
    }
    std::vector<int32_t> rows;
    for (size_t i = 0; i < reader.requests().size(); ++i) {
      Request request = reader.requests()[i];
      // Kernels write what they computed; the prompt is known to whoever asked.
      if (i < batch.size()) request.fields["prompt"] = PromptField(batch[i]);
      request.fields[std::string(kAskedBatchField)] = static_cast<double>(batches_);
      if (sampling_ != nullptr) AddSampling(&request);
      KCC_TRY(const int32_t row, writer_->AddRequest(request));
      rows.push_back(row);
    }
    ++batches_;
    TokenCursor cursor(reader);
    while (true) {
      KCC_TRY(const TokenEvidence* const found, cursor.Next());
      if (found == nullptr) return {};
      TokenEvidence token = *found;
      token.request = rows[static_cast<size_t>(token.request)];
      KCC_TRY_VOID(writer_->AddToken(token));
      ++tokens_;
    }
  }

  Result<int64_t> Finish() {
    if (!writer_) return BrokenEvidenceError("there was no request", Place{directory_});
    KCC_TRY_VOID(writer_->Finish());
    return tokens_;
  }

 private:
  // What trace.json has no key for. A request that says it itself is believed: a server may have
  // been asked otherwise.
  void AddSampling(Request* request) const {
    request->fields.try_emplace("top_k", static_cast<double>(sampling_->top_k));
    request->fields.try_emplace("top_p", sampling_->top_p);
    request->fields.try_emplace("output_tokens_max",
                                static_cast<double>(sampling_->output_tokens_max));
    // As text: a double does not hold every seed.
    request->fields.try_emplace("sampling_seed", std::to_string(sampling_->seed));
  }

  std::string directory_;
  const RequestSource& requests_;
  const Sampling* sampling_;
  int64_t batches_ = 0;
  std::optional<TraceWriter> writer_;
  int64_t tokens_ = 0;
};

Result<int64_t> Collect(const NamedKernel& kernel, RequestSource& requests,
                        const std::string& directory, const StreamOptions& options,
                        const Sampling* sampling, const BatchWork& work) {
  KCC_TRY(const PrivateDir scratch, PrivateDir::Make(options.scratch));
  // One batch at a time is on disk, however many requests there are.
  const std::string batch_directory = scratch / "batch";
  RequestBatches batches(
      requests, LimitsFor(kernel.kernel->info(), options.batch_requests, options.batch_bytes_max));
  TraceCollector collector(directory, requests, sampling);
  MeasureProgress progress;
  progress.requests_total = requests.totals().requests;
  progress.tokens_total = requests.totals().output_tokens;
  while (true) {
    KCC_TRY(const std::vector<KernelRequest> batch, batches.Next());
    // Only here does the directory get its name: a run that fails leaves no trace.
    if (batch.empty()) return collector.Finish();
    KCC_TRY_VOID(work(batch, batch_directory));
    KCC_TRY_VOID(collector.Add(batch_directory, batch));
    KCC_TRY_VOID(RemoveTree(batch_directory));
    progress.requests += static_cast<int64_t>(batch.size());
    for (const KernelRequest& request : batch) {
      progress.tokens += static_cast<int64_t>(request.tokens.size()) - request.prompt_tokens;
    }
    if (options.measure.progress) options.measure.progress(progress);
  }
}

}  // namespace

Result<int64_t> ScoreToTrace(const NamedKernel& kernel, RequestSource& requests,
                             const std::string& directory, const StreamOptions& options) {
  return Collect(kernel, requests, directory, options, nullptr,
                 [&](std::span<const KernelRequest> batch, const std::string& to) {
                   return kernel.kernel->Score(batch, to);
                 });
}

Result<int64_t> GenerateToTrace(const NamedKernel& kernel, RequestSource& requests,
                                const Sampling& sampling, const std::string& directory,
                                const StreamOptions& options) {
  return Collect(kernel, requests, directory, options, &sampling,
                 [&](std::span<const KernelRequest> batch, const std::string& to) {
                   return kernel.kernel->Generate(batch, sampling, to);
                 });
}

}  // namespace kcc
