// vLLM. Prompt log-probs are a list as long as the prompt with null first; each entry is an object
// keyed by token id, the real token first, the k best after it (so 1 to k + 1 entries). Output
// log-probs come as the legacy arrays (completions) or as `content` (chat, /inference/v1/generate).
// Text is never used to find a token: "token_id:N" (return_tokens_as_token_ids) or token_ids is.
//
// Chat cuts the list to k *with* the sampled token in it, so the k-th best may be lost: where the
// sampled token is the last of the list, it is left out of the alternatives.

#include <algorithm>
#include <charconv>

#include "kcc/trace/import_formats.h"
#include "kcc/trace/import_responses.h"
#include "kcc/trace/token_id.h"

namespace kcc {
namespace {

struct Choice {
  json::object object;
  json::object response;  // prompt_logprobs may stand here instead
  std::vector<int64_t> prompt_ids;
  std::vector<int64_t> output_ids;

  // In the choice for completions, at top level for chat and generate.
  std::optional<json::element> Either(std::string_view key) const {
    const auto own = JsonMember(object, key);
    return own ? own : JsonMember(response, key);
  }
};

Result<ImportedToken> ReadPromptEntry(json::element entry, std::optional<int64_t> expected) {
  ImportedToken token;
  json::object object;
  if (entry.get(object) != simdjson::SUCCESS) {
    return BrokenEvidenceError("an entry of prompt_logprobs is neither null nor an object");
  }
  for (const auto [key, value] : object) {
    int64_t number = 0;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), number);
    json::object fields;
    if (failure != std::errc() || end != key.data() + key.size() ||
        value.get(fields) != simdjson::SUCCESS) {
      return BrokenEvidenceError("prompt_logprobs must be keyed by token id; '" + std::string(key) +
                                 "' is none");
    }
    KCC_TRY(const int32_t id,
            TokenIdFrom(number, [] { return std::string("a key of prompt_logprobs"); }));
    const double logprob = LogprobOf(JsonMember(fields, "logprob"));
    // The real token is inserted first.
    const bool real = expected ? id == *expected : token.token < 0;
    if (real) {
      token.token = id;
      token.logprob = logprob;
    }
    const auto rank = JsonMember(fields, "rank");
    const auto place = rank ? JsonInteger(*rank) : std::nullopt;
    // A real token beyond the k best rides along behind them; it is no alternative.
    if (real && place && *place > static_cast<int64_t>(object.size())) continue;
    token.top.push_back({id, logprob});
  }
  return token;
}

// The ids the entries are about, as far as they can be told: the first key.
std::vector<int64_t> FirstKeys(json::array list) {
  std::vector<int64_t> ids;
  for (const json::element entry : list) {
    json::object object;
    int64_t id = -1;
    if (entry.get(object) == simdjson::SUCCESS && object.begin() != object.end()) {
      const std::string_view key = (*object.begin()).key;
      std::from_chars(key.data(), key.data() + key.size(), id);
    }
    ids.push_back(id);
  }
  return ids;
}

Result<> ReadPrompt(const Choice& choice, const ResponseContext& context,
                    ImportedSequence* sequence) {
  json::array list;
  if (choice.Either("prompt_logprobs")->get(list) != simdjson::SUCCESS) {
    return BrokenEvidenceError("prompt_logprobs must be a list");
  }
  sequence->prompt = true;
  sequence->semantics = LogprobSemantics::kRaw;
  sequence->prompt_tokens = context.scored_prompt_tokens.value_or(0);
  const std::vector<int64_t>& ids = choice.prompt_ids;
  if (list.size() > 0 && !list.at(0).is_null()) {
    return BrokenEvidenceError(
        "prompt_logprobs[0] is not null: the list is shifted by one (nothing predicts the first "
        "token, so vLLM sends null there)");
  }
  if (!ids.empty() && ids.size() != list.size()) {
    return AlignmentError("prompt_logprobs", ids, FirstKeys(list), 0);
  }
  size_t t = 0;
  for (const json::element entry : list) {
    if (t == 0) {
      ++t;
      continue;
    }
    const auto expected = ids.empty() ? std::nullopt : std::optional<int64_t>(ids[t]);
    if (entry.is_null()) {
      ImportedToken missing;
      missing.position = static_cast<int64_t>(t);
      missing.token = expected.value_or(0);
      sequence->tokens.push_back(missing);
    } else {
      KCC_TRY(ImportedToken token, ReadPromptEntry(entry, expected));
      if (token.token < 0) return AlignmentError("prompt_logprobs", ids, FirstKeys(list), t);
      token.position = static_cast<int64_t>(t);
      sequence->tokens.push_back(std::move(token));
    }
    ++t;
  }
  return {};
}

void DropUncertainLast(ImportedToken* token) {
  SortTop(&token->top);
  if (!token->top.empty() && token->top.back().id == token->token) token->top.pop_back();
}

// The id of an entry of `content`: "token": "token_id:N", or since 0.32 "token_id": N on
// /inference/v1/generate.
Result<std::optional<int32_t>> EntryId(json::object entry) {
  const auto member = JsonMember(entry, "token_id");
  if (!member) return TokenIdOf(JsonText(JsonMember(entry, "token")));
  KCC_TRY(const int32_t id, JsonTokenId(*member, "the 'token_id' of an entry"));
  return std::optional<int32_t>(id);
}

// logprobs.content of chat and /inference/v1/generate.
Result<> ReadContent(const Choice& choice, json::array content, const ResponseContext& context,
                     ImportedSequence* sequence) {
  std::vector<int64_t> found;
  for (const json::element entry : content) {
    json::object object;
    if (entry.get(object) != simdjson::SUCCESS)
      return BrokenEvidenceError("content holds no object");
    ImportedToken token;
    const size_t i = found.size();
    KCC_TRY(const auto id, EntryId(object));
    if (!id && i >= choice.output_ids.size()) {
      return BrokenEvidenceError(
          "the tokens are texts without ids; record with return_tokens_as_token_ids or "
          "return_token_ids, since two tokens may have the same text");
    }
    token.token = id ? *id : choice.output_ids[i];
    found.push_back(token.token);
    token.logprob = LogprobOf(JsonMember(object, "logprob"));
    const auto alternatives = JsonMember(object, "top_logprobs");
    json::array list;
    if (alternatives && alternatives->get(list) == simdjson::SUCCESS) {
      for (const json::element item : list) {
        json::object alternative;
        if (item.get(alternative) != simdjson::SUCCESS) continue;
        KCC_TRY(const auto alternative_id, EntryId(alternative));
        if (!alternative_id) {
          context.WarnOnce(
              "Alternatives keyed by text were left out: record with "
              "return_tokens_as_token_ids to keep them.");
          token.top.clear();
          break;
        }
        token.top.push_back({*alternative_id, LogprobOf(JsonMember(alternative, "logprob"))});
      }
    }
    DropUncertainLast(&token);
    sequence->tokens.push_back(std::move(token));
  }
  if (!choice.output_ids.empty()) {
    KCC_TRY_VOID(CheckAlignment("output log-probs", choice.output_ids, 0, found));
  }
  return {};
}

// The legacy arrays of /v1/completions; with echo they cover the prompt too.
Result<> ReadArrays(const Choice& choice, json::object logprobs, const ResponseContext& context,
                    ImportedSequence* sequence) {
  const auto words = JsonList(JsonMember(logprobs, "tokens"));
  const auto values = JsonList(JsonMember(logprobs, "token_logprobs"));
  if (!words || !values || words->size() != values->size()) {
    return BrokenEvidenceError("logprobs needs tokens and token_logprobs of one length");
  }
  const auto tops = JsonList(JsonMember(logprobs, "top_logprobs"));
  const bool has_tops = tops && tops->size() == words->size();
  std::vector<int64_t> ids = choice.output_ids;
  if (!ids.empty() && words->size() == choice.prompt_ids.size() + ids.size() &&
      !choice.prompt_ids.empty()) {
    ids.insert(ids.begin(), choice.prompt_ids.begin(), choice.prompt_ids.end());
  }
  std::vector<int64_t> found;
  for (size_t i = 0; i < words->size(); ++i) {
    KCC_TRY(const auto id, TokenIdOf(JsonText((*words)[i])));
    if (!id && i >= ids.size()) {
      return BrokenEvidenceError(
          "the tokens are texts without ids; record with return_tokens_as_token_ids or "
          "return_token_ids, since two tokens may have the same text");
    }
    ImportedToken token;
    token.token = id ? *id : ids[i];
    found.push_back(token.token);
    token.logprob = LogprobOf((*values)[i]);
    json::object top;
    if (has_tops && (*tops)[i].get(top) == simdjson::SUCCESS) {
      for (const auto [key, logprob] : top) {
        KCC_TRY(const auto alternative, TokenIdOf(key));
        if (!alternative) {
          context.WarnOnce(
              "Alternatives keyed by text were left out: record with "
              "return_tokens_as_token_ids to keep them.");
          token.top.clear();
          break;
        }
        token.top.push_back({*alternative, LogprobOf(logprob)});
      }
    }
    sequence->tokens.push_back(std::move(token));
  }
  if (!ids.empty()) KCC_TRY_VOID(CheckAlignment("log-probs", ids, 0, found));
  return {};
}

Result<> ReadOutput(const Choice& choice, const ResponseContext& context,
                    ImportedSequence* sequence) {
  json::object logprobs;
  const auto member = JsonMember(choice.object, "logprobs");
  if (!member || member->get(logprobs) != simdjson::SUCCESS) {
    return BrokenEvidenceError("the choice has no logprobs: ask for them in the request");
  }
  const auto content = JsonMember(logprobs, "content");
  json::array entries;
  if (content && content->get(entries) == simdjson::SUCCESS) {
    KCC_TRY_VOID(ReadContent(choice, entries, context, sequence));
  } else {
    KCC_TRY_VOID(ReadArrays(choice, logprobs, context, sequence));
  }
  const auto echo = context.RequestMember("echo");
  const bool echoed = echo && echo->is_bool() && bool(*echo);
  const int64_t prompt_tokens = PromptLength(choice.response, choice.prompt_ids.size(), context);
  if (prompt_tokens == 0) {
    return InvalidError(
        "the response does not say how long the prompt is, so positions are unknown; record with "
        "return_token_ids or give --prompt-tokens");
  }
  sequence->prompt_tokens = prompt_tokens;
  const bool with_prompt =
      echoed || (!choice.output_ids.empty() &&
                 sequence->tokens.size() == choice.prompt_ids.size() + choice.output_ids.size() &&
                 !choice.prompt_ids.empty());
  int64_t position = with_prompt ? 0 : prompt_tokens;
  for (ImportedToken& token : sequence->tokens) token.position = position++;
  // Nothing predicts the first token of a sequence.
  if (with_prompt && !sequence->tokens.empty()) sequence->tokens.erase(sequence->tokens.begin());
  return {};
}

}  // namespace

ResponseSequences ParseVllmResponse(json::object response, const ResponseContext& context) {
  const auto read = [&](json::object object, ImportedSequence* sequence) -> Result<> {
    Choice choice;
    choice.object = object;
    choice.response = response;
    KCC_TRY(choice.prompt_ids, JsonTokenIds(choice.Either("prompt_token_ids"), "prompt_token_ids"));
    if (choice.prompt_ids.empty()) {
      KCC_TRY(choice.prompt_ids, context.PromptIds());
    }
    KCC_TRY(choice.output_ids, JsonTokenIds(JsonMember(choice.object, "token_ids"), "token_ids"));
    sequence->fingerprint = JsonText(JsonMember(response, "system_fingerprint"));
    const bool has_prompt = choice.Either("prompt_logprobs").has_value();
    if (context.WantsPrompt(has_prompt)) {
      if (!has_prompt) return BrokenEvidenceError("the response has no prompt_logprobs");
      return ReadPrompt(choice, context, sequence);
    }
    sequence->semantics = context.options->semantics.value_or(LogprobSemantics::kRaw);
    return ReadOutput(choice, context, sequence);
  };
  return ReadChoices(response, context, "this is not a vLLM response: it has no choices", read);
}

Result<ImportReport> ImportVllm(ImportInputs inputs, const std::string& output,
                                const ImportOptions& options) {
  return ImportResponses(inputs, output, options, ParseVllmResponse);
}

}  // namespace kcc
