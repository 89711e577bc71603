// The requests file: parsed line by line, twice, from one opening, so that it may be a pipe.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/format/line_reader.h"
#include "kcc/kernel/request_source.h"
#include "kcc/summary/population.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

constexpr std::array<std::string_view, 4> kTokenFields = {"prompt", "output", "gold", "advantage"};
constexpr std::array<std::string_view, 14> kMeasuredFields = {"latency_ms",
                                                              "ttft_ms",
                                                              "reward",
                                                              "refused",
                                                              "parsed",
                                                              "failed",
                                                              "replay_signature",
                                                              "audit_points",
                                                              "kl_to_reference",
                                                              "peak_memory_mb",
                                                              "kv_cache_mb",
                                                              "timed_out",
                                                              "kernel_fingerprint",
                                                              kFilledFingerprintField};

// Ids from `least` on: labels may be -1.
Result<> AppendTokens(json::object object, std::string_view field, int64_t least,
                      std::vector<int32_t>* tokens) {
  const std::optional<json::element> value = JsonMember(object, field);
  if (!value) return {};
  json::array list;
  if (value->get(list) != simdjson::SUCCESS) {
    return InvalidError("'" + std::string(field) + "' must be a list of token ids, it is " +
                        std::string(JsonTypeName(*value)) +
                        "; kcc requests make turns text into ids");
  }
  for (const json::element item : list) {
    const std::optional<int64_t> id = JsonInteger(item);
    if (!id || *id < least || *id > std::numeric_limits<int32_t>::max()) {
      return InvalidError("'" + std::string(field) + "' holds " + simdjson::minify(item) +
                          ", which is no token id");
    }
    tokens->push_back(static_cast<int32_t>(*id));
  }
  return {};
}

// One number a token of the output, null where there is none; or one for all of them, as GRPO has,
// which stays a field of the request too.
Result<> ReadAdvantage(json::object object, KernelRequest* out) {
  out->advantage.clear();
  const std::optional<json::element> value = JsonMember(object, "advantage");
  if (!value || value->is_null()) return {};
  const size_t wanted = out->tokens.size() - static_cast<size_t>(out->prompt_tokens);
  const auto fits = [](const std::optional<double>& number) {
    return number && std::isfinite(static_cast<float>(*number));
  };
  if (const std::optional<double> all = JsonNumber(*value); fits(all)) {
    out->request.fields.insert_or_assign("advantage", *all);
    out->advantage.assign(wanted, static_cast<float>(*all));
    return {};
  }
  const auto list = JsonList(value);
  if (!list) return InvalidError("'advantage' must be a number or a list of numbers");
  for (const json::element item : *list) {
    const std::optional<double> number = JsonNumber(item);
    if (!item.is_null() && !fits(number)) {
      return InvalidError("'advantage' holds " + simdjson::minify(item) + ", which is no number");
    }
    out->advantage.push_back(number ? static_cast<float>(*number)
                                    : std::numeric_limits<float>::quiet_NaN());
  }
  if (out->advantage.size() == wanted) return {};
  return InvalidError("'advantage' has " + std::to_string(out->advantage.size()) + " numbers for " +
                      std::to_string(wanted) +
                      " tokens of output; each needs one, null where there is none");
}

// The labels: a list with one id a token of the output, or the word that the output is the label.
Result<> ReadGold(json::object object, KernelRequest* out) {
  out->gold.clear();
  const std::optional<json::element> value = JsonMember(object, "gold");
  if (!value) return {};
  const auto first = out->tokens.begin() + out->prompt_tokens;
  std::string_view word;
  if (value->get(word) == simdjson::SUCCESS) {
    if (word != "output") {
      return InvalidError("'gold' is '" + std::string(word) +
                          "', but takes a list of token ids or the word output");
    }
    out->gold.assign(first, out->tokens.end());
    return {};
  }
  KCC_TRY_VOID(AppendTokens(object, "gold", -1, &out->gold));
  const auto wanted = static_cast<size_t>(out->tokens.end() - first);
  if (out->gold.size() == wanted) return {};
  return InvalidError("'gold' has " + std::to_string(out->gold.size()) + " labels for " +
                      std::to_string(wanted) +
                      " tokens of output; each needs one, -1 where there is none");
}

Result<> SetCount(std::string_view field, size_t count, Request* request) {
  const auto number = static_cast<double>(count);
  const std::optional<double> said = request->Number(field);
  if (said && *said != number) {
    return InvalidError("'" + std::string(field) + "' is " + ShortestNumber(*said) +
                        ", but the list of ids has " + std::to_string(count));
  }
  request->fields.insert_or_assign(std::string(field), RequestValue(number));
  return {};
}

// What to say of a line that is no request: one with text for a prompt is a file for kcc requests
// make, whatever else it lacks.
Error ExplainLine(json::parser& parser, std::string_view line, const Error& error) {
  const auto root = ParseJson(parser, line);
  if (!root.has_value()) {
    return Error(error.code(), error.message() +
                                   "; a requests file holds one JSON object a line "
                                   "(docs/kernels.md)");
  }
  json::object object;
  if (root->get(object) != simdjson::SUCCESS) return error;
  const auto prompt = JsonMember(object, "prompt");
  if (!prompt || !prompt->is_string()) return error;
  std::vector<int32_t> ids;
  const auto appended = AppendTokens(object, "prompt", 0, &ids);
  return appended.has_value() ? error : appended.error();
}

Result<> ParseLine(json::parser& parser, std::string_view line, RequestUse use,
                   KernelRequest* out) {
  auto request = ParseRequest(line, kTokenFields);
  if (!request.has_value()) return ExplainLine(parser, line, request.error());
  out->request = std::move(*request);
  for (const std::string_view field : kMeasuredFields) {
    if (out->request.fields.find(field) == out->request.fields.end()) continue;
    return InvalidError("'" + std::string(field) +
                        "' is what a kernel's own run gives, so it cannot stand in the requests; "
                        "give the field another name to use it in a slice");
  }
  KCC_TRY(const json::element root, ParseJson(parser, line));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) return InvalidError("a request must be an object");
  out->tokens.clear();
  out->gold.clear();
  out->advantage.clear();
  KCC_TRY_VOID(AppendTokens(object, "prompt", 0, &out->tokens));
  const size_t prompt = out->tokens.size();
  if (prompt == 0) {
    return InvalidError(
        "'prompt' is missing or empty: nothing would predict the first token; put at least the "
        "begin-of-text token there");
  }
  if (prompt > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return InvalidError("'prompt' has more than 2^31 - 1 tokens");
  }
  out->prompt_tokens = static_cast<int32_t>(prompt);
  KCC_TRY_VOID(SetCount("prompt_tokens", prompt, &out->request));
  if (use == RequestUse::kGenerate) {
    out->request.fields.erase("output_tokens");
    return {};
  }
  KCC_TRY_VOID(AppendTokens(object, "output", 0, &out->tokens));
  if (out->tokens.size() == prompt) {
    return InvalidError(
        "'output' is missing or empty: there is nothing to score; kcc generate lets a kernel "
        "write it");
  }
  KCC_TRY_VOID(ReadGold(object, out));
  KCC_TRY_VOID(ReadAdvantage(object, out));
  return SetCount("output_tokens", out->tokens.size() - prompt, &out->request);
}

class RequestFile final : public RequestSource {
 public:
  RequestFile(LineReader reader, RequestUse use, RequestTotals totals, SampledBy sampled_by,
              std::optional<double> sampling_temperature)
      : reader_(std::move(reader)),
        use_(use),
        totals_(totals),
        sampled_by_(sampled_by),
        sampling_temperature_(sampling_temperature) {}

  Result<bool> Next(KernelRequest* request) override {
    std::string_view line;
    KCC_TRY(const bool more, reader_.Next(&line));
    if (!more) return false;
    Result<> parsed = ParseLine(parser_, line, use_, request);
    if (!parsed.has_value()) return std::move(parsed.error()).At(place());
    return true;
  }
  Result<> Rewind() override { return reader_.Rewind(); }
  RequestTotals totals() const override { return totals_; }
  SampledBy sampled_by() const override { return sampled_by_; }
  std::optional<double> sampling_temperature() const override { return sampling_temperature_; }
  Place place() const override { return {reader_.path(), reader_.number()}; }

 private:
  LineReader reader_;
  json::parser parser_;
  RequestUse use_;
  RequestTotals totals_;
  SampledBy sampled_by_;
  std::optional<double> sampling_temperature_;
};

}  // namespace

bool MeasuredByKernel(std::string_view field) {
  return std::find(kMeasuredFields.begin(), kMeasuredFields.end(), field) != kMeasuredFields.end();
}

Result<std::unique_ptr<RequestSource>> OpenRequestFile(const std::string& path, RequestUse use,
                                                       SampledBy sampled_by,
                                                       std::optional<double> sampling_temperature) {
  RequestTotals totals;
  KCC_TRY(LineReader reader,
          LineReader::Open(path, kRequestFileLineBytesMax, LineSource::kReadTwice));
  {
    json::parser parser;
    std::unordered_map<uint64_t, int> lines;  // by hash of the id, never iterated
    KernelRequest request;
    KCC_TRY_VOID(ForEachLine(reader, [&](std::string_view line, int number) -> Result<> {
      KCC_TRY_VOID(ParseLine(parser, line, use, &request));
      const auto [at, fresh] = lines.emplace(HashText(request.request.id), number);
      if (!fresh) {
        return InvalidError("the request id '" + request.request.id + "' stood already in line " +
                            std::to_string(at->second) + "; ids must be unique");
      }
      ++totals.requests;
      totals.output_tokens += static_cast<int64_t>(request.tokens.size()) - request.prompt_tokens;
      return {};
    }));
  }
  if (totals.requests == 0) return InvalidError("holds no request", Place{path});
  KCC_TRY_VOID(reader.Rewind());
  return std::unique_ptr<RequestSource>(std::make_unique<RequestFile>(
      std::move(reader), use, totals, sampled_by, sampling_temperature));
}

}  // namespace kcc
