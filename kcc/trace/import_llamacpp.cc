// llama.cpp server: completion_probabilities of /completion (its README calls the array `probs`),
// or choices[i].logprobs.content of the OpenAI routes; both carry `id`. The log-probs are raw: the
// full softmax of the logits, whatever the samplers do. With post_sampling_probs the entries hold
// `prob` and `top_probs` instead, after the sampler chain: processed, and truncated.

#include <algorithm>
#include <cmath>
#include <set>

#include "kcc/trace/import_formats.h"
#include "kcc/trace/import_responses.h"

namespace kcc {
namespace {

struct Number {
  double logprob = std::numeric_limits<double>::quiet_NaN();
  bool processed = false;
};

Number ReadNumber(json::object entry) {
  if (const auto prob = JsonMember(entry, "prob")) {
    const auto value = JsonNumber(*prob);
    return {value && *value > 0 ? std::log(*value) : std::numeric_limits<double>::quiet_NaN(),
            true};
  }
  return {LogprobOf(JsonMember(entry, "logprob")), false};
}

Result<> ReadEntries(json::array entries, ImportedSequence* sequence) {
  bool any_processed = false;
  bool any_raw = false;
  for (const json::element element : entries) {
    json::object entry;
    if (element.get(entry) != simdjson::SUCCESS) {
      return BrokenEvidenceError("an entry of the probabilities is not an object");
    }
    const auto id = JsonMember(entry, "id");
    if (!id) {
      return BrokenEvidenceError(
          "an entry of the probabilities has no 'id'; this server is too "
          "old to be matched by token");
    }
    ImportedToken token;
    KCC_TRY(token.token, JsonTokenId(*id, "the 'id' of an entry"));
    const Number number = ReadNumber(entry);
    token.logprob = number.logprob;
    (number.processed ? any_processed : any_raw) = true;
    const auto tops = JsonMember(entry, number.processed ? "top_probs" : "top_logprobs");
    json::array list;
    if (tops && tops->get(list) == simdjson::SUCCESS) {
      for (const json::element item : list) {
        json::object alternative;
        if (item.get(alternative) != simdjson::SUCCESS) continue;
        const auto other = JsonMember(alternative, "id");
        if (!other) return BrokenEvidenceError("an alternative has no 'id'");
        KCC_TRY(const int32_t other_id, JsonTokenId(*other, "the 'id' of an alternative"));
        token.top.push_back({other_id, ReadNumber(alternative).logprob});
      }
    }
    sequence->tokens.push_back(std::move(token));
  }
  if (any_processed && any_raw) {
    return BrokenEvidenceError(
        "mixed semantics: some entries hold `prob` (after the samplers), "
        "others `logprob` (raw)");
  }
  sequence->semantics = any_processed ? LogprobSemantics::kProcessed : LogprobSemantics::kRaw;
  return {};
}

// The server keeps back the numbers of a token that is a fragment of a character: `tokens` has it,
// the entries do not. Such tokens are put in without a log-prob, where it is certain which they
// are.
void FillKeptBack(const std::vector<int64_t>& output_ids, ImportedSequence* sequence) {
  std::vector<ImportedToken>& told = sequence->tokens;
  std::vector<ImportedToken> filled;
  std::set<int64_t> told_ids;
  std::set<int64_t> kept_back_ids;
  size_t next = 0;
  for (const int64_t id : output_ids) {
    if (next < told.size() && told[next].token == id) {
      told_ids.insert(id);
      filled.push_back(told[next++]);
    } else {
      kept_back_ids.insert(id);
      filled.emplace_back().token = static_cast<int32_t>(id);  // an id: JsonTokenIds
    }
  }
  // An id on both sides leaves open which of its places has the number.
  const bool certain =
      next == told.size() && std::none_of(kept_back_ids.begin(), kept_back_ids.end(),
                                          [&](int64_t id) { return told_ids.contains(id); });
  if (certain) told = std::move(filled);
}

Result<> SetPositions(std::optional<int64_t> prompt_tokens, const std::vector<int64_t>& output_ids,
                      const ResponseContext& context, ImportedSequence* sequence) {
  if (sequence->tokens.size() < output_ids.size()) FillKeptBack(output_ids, sequence);
  std::vector<int64_t> found;
  for (const ImportedToken& token : sequence->tokens) found.push_back(token.token);
  if (!output_ids.empty()) {
    KCC_TRY_VOID(CheckAlignment("completion_probabilities", output_ids, 0, found));
  }
  if (!prompt_tokens) prompt_tokens = context.options->prompt_tokens;
  if (!prompt_tokens) {
    return InvalidError(
        "the response does not say how long the prompt is, so positions are "
        "unknown; give --prompt-tokens");
  }
  sequence->prompt_tokens = prompt_tokens;
  int64_t position = *prompt_tokens;
  for (ImportedToken& token : sequence->tokens) token.position = position++;
  return {};
}

void ReadCommon(json::object response, const ResponseContext& context, ImportedSequence* sequence) {
  sequence->fingerprint = JsonText(JsonMember(response, "system_fingerprint"));
  const auto settings = JsonMember(response, "generation_settings");
  const auto setting = [&](std::string_view key) -> std::optional<double> {
    auto element = context.RequestMember(key);
    json::object object;
    if (!element && settings && settings->get(object) == simdjson::SUCCESS) {
      element = JsonMember(object, key);
    }
    return element ? JsonNumber(*element) : std::nullopt;
  };
  if (const auto temperature = setting("temperature")) sequence->temperature = temperature;
  // What the server does if it is not told otherwise is a part of the distribution.
  sequence->altered = setting("top_k").value_or(40) > 0 || setting("top_p").value_or(0.95) != 1 ||
                      setting("min_p").value_or(0.05) > 0 ||
                      setting("repeat_penalty").value_or(1) != 1;
  for (const std::string_view key :
       {"typical_p", "presence_penalty", "frequency_penalty", "dry_multiplier", "dynatemp_range",
        "mirostat", "top_n_sigma", "xtc_probability"}) {
    const auto value = setting(key);
    if (value && AltersSamplingAs(key, *value)) sequence->altered = true;
  }
  // Here it takes the end token out of the distribution.
  const auto ignores_end = context.RequestMember("ignore_eos");
  bool ignored = false;
  if (ignores_end && ignores_end->get(ignored) == simdjson::SUCCESS && ignored) {
    sequence->altered = true;
  }
}

}  // namespace

ResponseSequences ParseLlamacppResponse(json::object response, const ResponseContext& context) {
  if (context.options->prompt.value_or(false)) {
    return InvalidError(
        "the llama.cpp server gives no log-probs of prompt tokens; use "
        "llama-perplexity and import llama-kld");
  }
  json::array entries;
  for (const std::string_view key : {"completion_probabilities", "probs"}) {
    const auto member = JsonMember(response, key);
    if (!member || member->get(entries) != simdjson::SUCCESS) continue;
    std::vector<ImportedSequence> sequences(1);
    ReadCommon(response, context, &sequences[0]);
    KCC_TRY_VOID(ReadEntries(entries, &sequences[0]));
    const auto evaluated = JsonMember(response, "tokens_evaluated");
    KCC_TRY(const std::vector<int64_t> ids, JsonTokenIds(JsonMember(response, "tokens"), "tokens"));
    KCC_TRY_VOID(SetPositions(evaluated ? JsonInteger(*evaluated) : std::nullopt, ids, context,
                              &sequences[0]));
    return sequences;
  }
  const auto read = [&](json::object choice, ImportedSequence* sequence) -> Result<> {
    json::object logprobs;
    const auto inner = JsonMember(choice, "logprobs");
    if (!inner || inner->get(logprobs) != simdjson::SUCCESS) {
      return BrokenEvidenceError("the choice has no logprobs: ask for them in the request");
    }
    const auto content = JsonMember(logprobs, "content");
    if (!content || content->get(entries) != simdjson::SUCCESS) {
      return BrokenEvidenceError("logprobs has no content");
    }
    ReadCommon(response, context, sequence);
    KCC_TRY_VOID(ReadEntries(entries, sequence));
    const int64_t prompt_tokens = PromptLength(response, 0, context);
    return SetPositions(prompt_tokens > 0 ? std::optional(prompt_tokens) : std::nullopt, {},
                        context, sequence);
  };
  return ReadChoices(
      response, context,
      "this response has neither completion_probabilities nor choices; ask with n_probs", read);
}

Result<ImportReport> ImportLlamacpp(ImportInputs inputs, const std::string& output,
                                    const ImportOptions& options) {
  return ImportResponses(inputs, output, options, ParseLlamacppResponse);
}

}  // namespace kcc
