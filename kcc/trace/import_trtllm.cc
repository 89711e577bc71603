// TensorRT-LLM trtllm-serve /v1/completions. Its log-probs are keyed by decoded text, so ids come
// from token_ids (ask with detokenize: false), alternatives cannot be kept, and text_offset is off
// by one token and never used. return_context_logits gives the full logits of the prompt, where
// row t predicts token t + 1: scored evidence. -9999.0 stands for -inf.

#include "kcc/trace/import_formats.h"
#include "kcc/trace/import_responses.h"

namespace kcc {
namespace {

Result<> ReadContext(json::array rows, const std::vector<int64_t>& prompt_ids,
                     const ResponseContext& context, ImportedSequence* sequence) {
  if (prompt_ids.empty()) {
    return InvalidError(
        "context_logits need the prompt's token ids; wrap the response with its "
        "request, whose prompt is a list of ids");
  }
  if (rows.size() != prompt_ids.size()) {
    return BrokenEvidenceError("context_logits has " + std::to_string(rows.size()) + " rows for " +
                               std::to_string(prompt_ids.size()) +
                               " prompt tokens: shifted by one, or another prompt");
  }
  sequence->prompt = true;
  sequence->prompt_tokens = context.scored_prompt_tokens.value_or(0);
  size_t t = 0;
  for (const json::element element : rows) {
    ++t;
    if (t == prompt_ids.size()) break;  // the last row predicts a token that is not there
    json::array row;
    if (element.get(row) != simdjson::SUCCESS) {
      return BrokenEvidenceError("a row of context_logits is not a list");
    }
    ImportedToken token;
    token.position = static_cast<int64_t>(t);
    token.token = prompt_ids[t];
    token.logits.reserve(row.size());
    for (const json::element number : row) {
      const auto value = JsonNumber(number);
      if (!value) return BrokenEvidenceError("a context logit is not a number");
      token.logits.push_back(static_cast<float>(*value));
    }
    sequence->tokens.push_back(std::move(token));
  }
  return {};
}

Result<> ReadOutput(json::object response, json::object choice, const ResponseContext& context,
                    ImportedSequence* sequence) {
  KCC_TRY(const std::vector<int64_t> ids,
          JsonTokenIds(JsonMember(choice, "token_ids"), "token_ids"));
  if (ids.empty()) {
    return BrokenEvidenceError(
        "the choice has no token_ids, and its log-probs are keyed by text; "
        "ask /v1/completions with detokenize: false");
  }
  const auto member = JsonMember(choice, "logprobs");
  json::object logprobs;
  json::array values;
  if (!member || member->get(logprobs) != simdjson::SUCCESS) {
    return BrokenEvidenceError("the choice has no logprobs: ask for them in the request");
  }
  const auto numbers = JsonMember(logprobs, "token_logprobs");
  if (!numbers || numbers->get(values) != simdjson::SUCCESS || values.size() != ids.size()) {
    return BrokenEvidenceError("token_logprobs has another length than token_ids (" +
                               std::to_string(ids.size()) + "): shifted or cut off");
  }
  if (JsonMember(logprobs, "top_logprobs")) {
    context.WarnOnce(
        "Alternatives keyed by text were left out: TensorRT-LLM gives no ids for them.");
  }
  KCC_TRY(const std::vector<int64_t> prompt_ids, context.PromptIds());
  const int64_t prompt_tokens = PromptLength(response, prompt_ids.size(), context);
  if (prompt_tokens == 0) {
    return InvalidError(
        "the response does not say how long the prompt is, so positions are "
        "unknown; give --prompt-tokens");
  }
  if (!context.options->semantics) {
    return InvalidError(
        "TensorRT-LLM's log-probs depend on the engine; say what they are with "
        "--semantics raw, temperature-scaled or processed");
  }
  sequence->semantics = *context.options->semantics;
  sequence->prompt_tokens = prompt_tokens;
  size_t i = 0;
  for (const json::element value : values) {
    ImportedToken token;
    token.position = prompt_tokens + static_cast<int64_t>(i);
    token.token = ids[i++];
    token.logprob = LogprobOf(value);
    sequence->tokens.push_back(std::move(token));
  }
  return {};
}

}  // namespace

ResponseSequences ParseTrtllmResponse(json::object response, const ResponseContext& context) {
  const auto read = [&](json::object choice, ImportedSequence* sequence) -> Result<> {
    json::array rows;
    const auto logits = JsonMember(choice, "context_logits");
    const bool has_context = logits && logits->get(rows) == simdjson::SUCCESS;
    if (!context.WantsPrompt(has_context)) return ReadOutput(response, choice, context, sequence);
    if (!has_context) return BrokenEvidenceError("the response has no context_logits");
    KCC_TRY(const std::vector<int64_t> prompt_ids, context.PromptIds());
    return ReadContext(rows, prompt_ids, context, sequence);
  };
  return ReadChoices(response, context, "this is not a response of trtllm-serve: it has no choices",
                     read);
}

Result<ImportReport> ImportTrtllm(ImportInputs inputs, const std::string& output,
                                  const ImportOptions& options) {
  return ImportResponses(inputs, output, options, ParseTrtllmResponse);
}

}  // namespace kcc
