// The requests that a trace was made from, read back out of it.
#include <charconv>
#include <utility>

#include "kcc/kernel/request_source.h"
#include "kcc/kernel/stream.h"
#include "kcc/kernel/trace_rows.h"

namespace kcc {
namespace {

constexpr std::string_view kPromptField = "prompt";

// What the recorded kernel measured, and when it did, is not the other kernel's.
bool OfItsOwnRun(std::string_view field) {
  return MeasuredByKernel(field) || field == "ordinal" || field == "started_at_ms" ||
         field == kPromptField || field == kAskedBatchField;
}

class TraceRequests final : public RequestSource {
 public:
  TraceRequests(TraceReader reader, TraceRows rows)
      : reader_(std::move(reader)), rows_(std::move(rows)), cursor_(reader_, IndexOnly()) {
    totals_.requests = static_cast<int64_t>(reader_.requests().size());
    // For progress alone: scored prompt tokens are among them.
    totals_.output_tokens = reader_.token_count();
  }

  Result<bool> Next(KernelRequest* request) override {
    if (next_ == static_cast<int32_t>(reader_.requests().size())) return false;
    Result<> made = Make(next_, request);
    if (!made.has_value()) return std::move(made.error()).At(place());
    ++next_;
    return true;
  }
  Result<> Rewind() override {
    next_ = 0;
    return {};
  }
  RequestTotals totals() const override { return totals_; }
  SampledBy sampled_by() const override { return reader_.info().sampled_by; }
  std::optional<double> sampling_temperature() const override {
    // Format 1 does not say whether the whole distribution was drawn from; in a trace of format 2
    // the temperature alone would say that it was.
    const TraceInfo& info = reader_.info();
    return info.StatesSampling() ? info.sampling_temperature : std::nullopt;
  }
  bool sampling_altered() const override { return reader_.info().sampling_altered; }
  Place place() const override { return Place{reader_.directory()}; }

 private:
  static TokenCursor::Options IndexOnly() {
    TokenCursor::Options options;
    options.index_only = true;
    return options;
  }

  Result<> ReadPrompt(const Request& recorded, std::vector<int32_t>* tokens) const {
    const auto field = recorded.fields.find(kPromptField);
    if (field == recorded.fields.end()) return {};
    const auto* ids = std::get_if<std::vector<std::string>>(&field->second);
    if (ids == nullptr) return {};  // a prompt's text, say
    for (const std::string& text : *ids) {
      int32_t id = -1;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
      if (error != std::errc() || end != text.data() + text.size() || id < 0) {
        return BrokenEvidenceError("request '" + recorded.id + "': the prompt holds '" + text +
                                   "', which is no token id");
      }
      tokens->push_back(id);
    }
    return {};
  }

  // The tokens of a request are its recorded prompt followed by the rows of its output, which must
  // go on where the prompt ends: an engine cannot be asked about a sequence with a hole in it. A
  // prompt that was not recorded may still be there as scored rows from position 0 on.
  Result<> Make(int32_t row, KernelRequest* out) {
    const Request& recorded = reader_.requests()[static_cast<size_t>(row)];
    out->tokens.clear();
    KCC_TRY_VOID(ReadPrompt(recorded, &out->tokens));
    const std::optional<double> said = recorded.Number("prompt_tokens");
    const auto prompt = said ? static_cast<size_t>(*said) : out->tokens.size();
    out->tokens.resize(std::min(out->tokens.size(), prompt));
    for (int64_t i = 0; i < rows_.count(row); ++i) {
      KCC_TRY(const TokenEvidence* const token, cursor_.At(rows_.row(row, i)));
      const auto position = static_cast<size_t>(token->position);
      if (token->position < 0 || position < out->tokens.size()) continue;
      if (position != out->tokens.size()) return Unknown(recorded, out->tokens.size());
      out->tokens.push_back(token->token);
    }
    if (recorded.Flag("failed").value_or(false) && out->tokens.size() <= prompt) {
      // Left out it would be the kernel that failed who chose what is compared.
      return InvalidError("request '" + recorded.id +
                          "' failed when the trace was made and has no tokens to ask about; give "
                          "--requests, or a trace without it");
    }
    if (prompt == 0 || out->tokens.size() <= prompt) return Unknown(recorded, out->tokens.size());
    // Both kernels will carry these fields, so what one of them measured goes out first.
    out->request = recorded;
    std::erase_if(out->request.fields, [](const auto& field) { return OfItsOwnRun(field.first); });
    out->prompt_tokens = static_cast<int32_t>(prompt);
    out->request.fields["prompt_tokens"] = static_cast<double>(prompt);
    return {};
  }

  static Error Unknown(const Request& recorded, size_t position) {
    return InvalidError("request '" + recorded.id + "': the trace does not say which token is at " +
                        "position " + std::to_string(position) +
                        ", so an engine cannot be asked about it; give --requests");
  }

  TraceReader reader_;
  TraceRows rows_;
  TokenCursor cursor_;
  RequestTotals totals_;
  int32_t next_ = 0;
};

}  // namespace

Result<std::unique_ptr<RequestSource>> OpenTraceRequests(const std::string& directory) {
  KCC_TRY(TraceReader reader, TraceReader::Open(directory));
  KCC_TRY(TraceRows rows, TraceRows::Make(reader));
  return std::unique_ptr<RequestSource>(
      std::make_unique<TraceRequests>(std::move(reader), std::move(rows)));
}

RequestValue PromptField(const KernelRequest& request) {
  std::vector<std::string> ids;
  ids.reserve(static_cast<size_t>(request.prompt_tokens));
  for (int32_t i = 0; i < request.prompt_tokens; ++i) {
    ids.push_back(std::to_string(request.tokens[static_cast<size_t>(i)]));
  }
  return ids;
}

}  // namespace kcc
