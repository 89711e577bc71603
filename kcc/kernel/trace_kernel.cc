#include "kcc/kernel/trace_kernel.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

#include "kcc/kernel/trace_rows.h"

namespace kcc {
namespace {

// A kernel whose answers were recorded. It answers for exactly the tokens that its trace holds of a
// request and says which are lacking; it fills nothing in. Example: a trace with positions 4 to 9
// of a request fails if it is asked about 4 to 8, and if it is asked about 4 to 10. In both cases
// the other kernel would be asked about another continuation than the one that was recorded.
class TraceKernel final : public Kernel {
 public:
  TraceKernel(TraceReader reader, TraceRows rows, TraceWriter::Options writer)
      : reader_(std::move(reader)), rows_(std::move(rows)), writer_(writer) {
    const TraceInfo& info = reader_.info();
    info_.fingerprint = info.kernel_fingerprint;
    info_.model_digest = info.model_digest;
    info_.vocab_size = info.vocab_size;
    info_.evidence = info.evidence;
    info_.semantics = info.semantics;
    info_.path = info.path;
    info_.temperature = info.temperature;
    info_.declares = info.declares;
  }

  const KernelInfo& info() const override { return info_; }

  Result<> Score(std::span<const KernelRequest> batch, const std::string& directory) override {
    if (reader_.info().mode != TraceMode::kScored) {
      return InvalidError("holds tokens that the kernel wrote itself, so it cannot score others'",
                          place());
    }
    TraceInfo info = reader_.info();
    // Counts are of the whole trace; the writer fills in those of the batch.
    info.requests.reset();
    info.tokens.reset();
    TraceWriter::Options options = writer_;
    options.scratch = true;
    KCC_TRY(TraceWriter writer, TraceWriter::Create(directory, std::move(info), options));
    TokenCursor cursor(reader_);
    for (const KernelRequest& request : batch) {
      KCC_TRY_VOID(Copy(request, &cursor, &writer));
    }
    return writer.Finish();
  }

  Result<> Generate(std::span<const KernelRequest>, const Sampling&, const std::string&) override {
    return InvalidError("a trace cannot generate; it holds what a kernel said once", place());
  }

 private:
  Place place() const { return Place{reader_.directory()}; }

  // The recorded rows of one request, which must be exactly those asked for.
  Result<> Copy(const KernelRequest& wanted, TokenCursor* cursor, TraceWriter* writer) {
    const int32_t at = rows_.Find(reader_, wanted.request.id);
    const auto fail = [&](const std::string& why) {
      return BrokenEvidenceError("request '" + wanted.request.id + "': " + why, place());
    };
    if (at < 0) return fail("the trace does not hold it");
    Request request = reader_.requests()[static_cast<size_t>(at)];
    // insert does not replace: what the kernel recorded about its run stays.
    for (const auto& field : wanted.request.fields) request.fields.insert(field);
    // The prompt ends where the asking side says, not where the recording did.
    request.fields["prompt_tokens"] = static_cast<double>(wanted.prompt_tokens);
    KCC_TRY(const int32_t row, writer->AddRequest(request));
    int32_t next = wanted.prompt_tokens;
    const auto end = static_cast<int32_t>(wanted.tokens.size());
    for (int64_t i = 0; i < rows_.count(at); ++i) {
      KCC_TRY(const TokenEvidence* const found, cursor->At(rows_.row(at, i)));
      TokenEvidence token = *found;
      if (token.position < wanted.prompt_tokens) continue;
      if (token.position != next || next >= end) {
        return fail(next >= end
                        ? "the trace holds tokens beyond position " + std::to_string(end - 1)
                        : "the trace does not hold position " + std::to_string(next));
      }
      const int32_t asked = wanted.tokens[static_cast<size_t>(next)];
      if (token.token != asked) {
        return fail("position " + std::to_string(next) + " is token " +
                    std::to_string(token.token) + " in the trace and " + std::to_string(asked) +
                    " in the requests");
      }
      token.request = row;
      KCC_TRY_VOID(writer->AddToken(token));
      ++next;
    }
    if (next < end) return fail("the trace does not hold position " + std::to_string(next));
    return {};
  }

  TraceReader reader_;
  TraceRows rows_;
  TraceWriter::Options writer_;
  KernelInfo info_;
};

}  // namespace

Result<TraceWriter::Options> WriterOptionsFor(const TraceReader& reader) {
  TraceWriter::Options options;
  std::optional<std::pair<DType, int64_t>> logits;
  for (const TokenFile& file : reader.files()) {
    // A column that one file has and another lacks is written for all, as "not recorded".
    options.logprob |= file.logprob.has_value();
    options.advantage |= file.advantage.has_value();
    options.mask |= file.mask.has_value();
    options.gold |= file.gold.has_value();
    if (file.top_ids) {
      options.top_k = std::max(options.top_k, static_cast<int32_t>(file.top_ids->shape[1]));
    }
    if (!file.logits) continue;
    const std::pair<DType, int64_t> found(file.logits->dtype, file.logits->shape[1]);
    // One trace stores logits in one format, so files of two formats cannot be copied into it.
    if (logits && *logits != found) {
      return InvalidError("the trace's files store logits of different types or widths",
                          Place{reader.directory()});
    }
    logits = found;
  }
  if (logits) std::tie(options.logits_dtype, options.logits_width) = *logits;
  return options;
}

Result<std::unique_ptr<Kernel>> OpenTraceKernel(const std::string& directory) {
  KCC_TRY(TraceReader reader, TraceReader::Open(directory));
  KCC_TRY(TraceRows rows, TraceRows::Make(reader));
  KCC_TRY(const TraceWriter::Options writer, WriterOptionsFor(reader));
  return std::unique_ptr<Kernel>(
      std::make_unique<TraceKernel>(std::move(reader), std::move(rows), writer));
}

Result<> CheckTraceUri(const KernelUri& uri) {
  std::error_code ignored;
  if (std::filesystem::exists(uri.rest, ignored)) return {};
  const std::string server = ServerUriFor(uri.text);
  if (server.empty()) return {};  // opening it has words for what is wrong
  return InvalidError(AddressMessage(server), Place{uri.text});
}

KernelScheme TraceScheme() {
  return {"trace", "trace:DIR",
          [](const KernelUri& uri, const KernelOpenOptions&) { return OpenTraceKernel(uri.rest); },
          CheckTraceUri};
}

}  // namespace kcc
