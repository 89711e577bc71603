// Text Generation Inference /generate with details (and decoder_input_details for the prompt).
// Output log-probs are of the processed scores, prefill log-probs are raw; the first prefill entry
// is null. A prefill without log-probs comes from a server started without
// --enable-prefill-logprobs.

#include "kcc/trace/import_formats.h"
#include "kcc/trace/import_responses.h"

namespace kcc {
namespace {

Result<ImportedToken> ReadToken(json::element element) {
  json::object object;
  if (element.get(object) != simdjson::SUCCESS)
    return BrokenEvidenceError("a token is not an object");
  ImportedToken token;
  const auto id = JsonMember(object, "id");
  if (!id) return BrokenEvidenceError("a token has no 'id'");
  KCC_TRY(token.token, JsonTokenId(*id, "the 'id' of a token"));
  token.logprob = LogprobOf(JsonMember(object, "logprob"));
  return token;
}

Result<> ReadPrefill(json::array prefill, const ResponseContext& context,
                     ImportedSequence* sequence) {
  sequence->prompt = true;
  sequence->semantics = LogprobSemantics::kRaw;
  sequence->prompt_tokens = context.scored_prompt_tokens.value_or(0);
  int64_t position = 0;
  int64_t with_logprob = 0;
  for (const json::element element : prefill) {
    KCC_TRY(ImportedToken token, ReadToken(element));
    token.position = position++;
    if (token.position == 0) {
      if (!std::isnan(token.logprob)) {
        return BrokenEvidenceError(
            "the first prefill token has a log-prob: the list is shifted by "
            "one (nothing predicts the first token)");
      }
      continue;
    }
    with_logprob += !std::isnan(token.logprob);
    sequence->tokens.push_back(std::move(token));
  }
  if (with_logprob == 0) {
    return BrokenEvidenceError(
        "the prefill holds no log-probs; start the server with "
        "--enable-prefill-logprobs");
  }
  return {};
}

Result<> ReadOutput(json::object details, int64_t prompt_tokens, ImportedSequence* sequence,
                    const ResponseContext& context) {
  const auto member = JsonMember(details, "tokens");
  json::array tokens;
  if (!member || member->get(tokens) != simdjson::SUCCESS) {
    return BrokenEvidenceError("details.tokens is missing");
  }
  sequence->semantics = context.options->semantics.value_or(LogprobSemantics::kProcessed);
  sequence->prompt_tokens = prompt_tokens;
  int64_t position = prompt_tokens;
  for (const json::element element : tokens) {
    KCC_TRY(ImportedToken token, ReadToken(element));
    token.position = position++;
    sequence->tokens.push_back(std::move(token));
  }
  const auto tops = JsonMember(details, "top_tokens");
  json::array rows;
  if (!tops || tops->get(rows) != simdjson::SUCCESS || rows.size() == 0) return {};
  if (rows.size() != sequence->tokens.size()) {
    return BrokenEvidenceError("top_tokens has " + std::to_string(rows.size()) + " rows for " +
                               std::to_string(sequence->tokens.size()) + " tokens");
  }
  size_t i = 0;
  for (const json::element row : rows) {
    json::array alternatives;
    if (row.get(alternatives) == simdjson::SUCCESS) {
      for (const json::element element : alternatives) {
        KCC_TRY(const ImportedToken alternative, ReadToken(element));
        sequence->tokens[i].top.push_back(
            {static_cast<int32_t>(alternative.token), alternative.logprob});
      }
    }
    ++i;
  }
  return {};
}

// TGI draws only where it is told to: by do_sample, or by a setting that makes sense of a draw
// alone.
std::optional<double> TemperatureAsked(const ResponseContext& context) {
  if (!context.request) return std::nullopt;
  const auto number = [&](std::string_view key) {
    const auto element = context.RequestMember(key);
    return element ? JsonNumber(*element) : std::nullopt;
  };
  const std::optional<double> temperature = number("temperature");
  bool draws = false;
  const auto told = context.RequestMember("do_sample");
  if (told && told->get(draws) != simdjson::SUCCESS) draws = false;
  for (const std::string_view key : {"top_k", "top_p", "typical_p"}) {
    const auto value = number(key);
    draws = draws || (value && AltersSamplingAs(key, *value));
  }
  if (!draws && temperature.value_or(1) == 1) return 0;
  return temperature;
}

Result<std::vector<ImportedSequence>> ParseResponse(json::object response,
                                                    const ResponseContext& context) {
  const auto member = JsonMember(response, "details");
  json::object details;
  if (!member || member->get(details) != simdjson::SUCCESS) {
    return InvalidError("this is not a TGI response with details; ask with details: true");
  }
  ImportedSequence sequence;
  sequence.temperature = TemperatureAsked(context);
  json::array prefill;
  const auto prompt = JsonMember(details, "prefill");
  const bool has_prefill =
      prompt && prompt->get(prefill) == simdjson::SUCCESS && prefill.size() > 1;
  // The prompt's evidence is taken on demand only: by default the output is what was sampled.
  if (context.options->prompt.value_or(false)) {
    if (!has_prefill) return BrokenEvidenceError("the response has no prefill tokens");
    KCC_TRY_VOID(ReadPrefill(prefill, context, &sequence));
  } else {
    const int64_t prompt_tokens = has_prefill ? static_cast<int64_t>(prefill.size())
                                              : context.scored_prompt_tokens.value_or(-1);
    if (prompt_tokens < 0) {
      return InvalidError(
          "the response does not say how long the prompt is, so positions are "
          "unknown; ask with decoder_input_details or give --prompt-tokens");
    }
    KCC_TRY_VOID(ReadOutput(details, prompt_tokens, &sequence, context));
  }
  std::vector<ImportedSequence> sequences;
  sequences.push_back(std::move(sequence));
  return sequences;
}

}  // namespace

Result<ImportReport> ImportTgi(ImportInputs inputs, const std::string& output,
                               const ImportOptions& options) {
  return ImportResponses(inputs, output, options, ParseResponse);
}

}  // namespace kcc
