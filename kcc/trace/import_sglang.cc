// SGLang /generate (also inside choices[i].meta_info of its OpenAI routes with return_meta_info).
// Every entry is [logprob, token_id, text]. With logprob_start_len = s the input list starts at
// input token s, and its element 0 is [null, id, …] for every s: nothing before it was scored.
//
// Input log-probs are raw whatever the temperature; output log-probs are at the temperature unless
// the server runs with SGLANG_RETURN_ORIGINAL_LOGPROB=1 (then import with --semantics raw).

#include "kcc/trace/import_formats.h"
#include "kcc/trace/import_responses.h"

namespace kcc {
namespace {

struct Triple {
  double logprob = std::numeric_limits<double>::quiet_NaN();
  int32_t id = -1;
  bool is_null = false;
};

Result<Triple> ReadTriple(json::element element) {
  json::array list;
  if (element.get(list) != simdjson::SUCCESS || list.size() < 2) {
    return BrokenEvidenceError("an entry is not [logprob, token id, text]");
  }
  Triple triple;
  json::element logprob;
  json::element id;
  if (list.at(0).get(logprob) != simdjson::SUCCESS || list.at(1).get(id) != simdjson::SUCCESS ||
      !id.is_number()) {
    return BrokenEvidenceError("an entry is not [logprob, token id, text]");
  }
  KCC_TRY(triple.id, JsonTokenId(id, "the id of an entry [logprob, token id, text]"));
  triple.is_null = logprob.is_null();
  triple.logprob = LogprobOf(logprob);
  return triple;
}

Result<std::vector<Triple>> ReadTriples(json::object meta, std::string_view key) {
  const auto member = JsonMember(meta, key);
  json::array list;
  if (!member || member->get(list) != simdjson::SUCCESS) {
    return BrokenEvidenceError("meta_info." + std::string(key) +
                               " is missing; ask with return_logprob (and logprob_start_len for "
                               "the input)");
  }
  std::vector<Triple> triples;
  for (const json::element element : list) {
    KCC_TRY(const Triple triple, ReadTriple(element));
    triples.push_back(triple);
  }
  return triples;
}

// Adds the alternatives of entry i + skip to token i.
Result<> ReadTops(json::object meta, std::string_view key, size_t skip,
                  std::vector<ImportedToken>* tokens) {
  if (JsonMember(meta, std::string(key) + "_val_flat") ||
      JsonMember(meta, std::string(key) + "_val_flat_b64")) {
    return InvalidError("the flat form of " + std::string(key) +
                        " is not read; ask without return_flat_raw_top_logprobs");
  }
  const auto member = JsonMember(meta, key);
  json::array list;
  if (!member || member->get(list) != simdjson::SUCCESS || list.size() == 0) return {};
  if (list.size() != tokens->size() + skip) {
    return BrokenEvidenceError(std::string(key) + " has " + std::to_string(list.size()) +
                               " entries for " + std::to_string(tokens->size() + skip) +
                               " tokens: shifted by one, or from another response");
  }
  size_t i = 0;
  for (const json::element entry : list) {
    json::array alternatives;
    if (i >= skip && entry.get(alternatives) == simdjson::SUCCESS) {
      for (const json::element alternative : alternatives) {
        KCC_TRY(const Triple triple, ReadTriple(alternative));
        (*tokens)[i - skip].top.push_back({triple.id, triple.logprob});
      }
    }
    ++i;
  }
  return {};
}

std::vector<int64_t> Ids(const std::vector<Triple>& triples) {
  std::vector<int64_t> ids;
  ids.reserve(triples.size());
  for (const Triple& triple : triples) ids.push_back(triple.id);
  return ids;
}

Result<> ReadInput(json::object meta, std::optional<int64_t> prompt_length,
                   const std::vector<int64_t>& prompt_ids, const ResponseContext& context,
                   ImportedSequence* sequence) {
  KCC_TRY(const std::vector<Triple> triples, ReadTriples(meta, "input_token_logprobs"));
  if (triples.empty()) return BrokenEvidenceError("input_token_logprobs is empty");
  if (!triples[0].is_null) {
    return BrokenEvidenceError(
        "input_token_logprobs[0] has a log-prob: the list is shifted by one (SGLang sends null "
        "there for every logprob_start_len)");
  }
  const auto count = static_cast<int64_t>(triples.size());
  int64_t start = prompt_length ? *prompt_length - count : 0;
  const auto asked = context.RequestMember("logprob_start_len");
  const auto asked_start = asked ? JsonInteger(*asked) : std::nullopt;
  if (asked_start && *asked_start >= 0 && prompt_length && *asked_start != start) {
    return BrokenEvidenceError(
        "input_token_logprobs has " + std::to_string(count) + " entries; with logprob_start_len " +
        std::to_string(*asked_start) + " and a prompt of " + std::to_string(*prompt_length) +
        " tokens it must have " + std::to_string(*prompt_length - *asked_start) +
        ": shifted by one, or element 0 was dropped");
  }
  if (asked_start && *asked_start >= 0) start = *asked_start;
  if (start < 0) return BrokenEvidenceError("input_token_logprobs is longer than the prompt");
  if (!prompt_ids.empty()) {
    KCC_TRY_VOID(CheckAlignment("input_token_logprobs", prompt_ids, start, Ids(triples)));
  }
  sequence->prompt = true;
  sequence->semantics = LogprobSemantics::kRaw;
  sequence->prompt_tokens = context.scored_prompt_tokens.value_or(0);
  for (size_t j = 1; j < triples.size(); ++j) {
    ImportedToken token;
    token.position = start + static_cast<int64_t>(j);
    token.token = triples[j].id;
    token.logprob = triples[j].logprob;
    sequence->tokens.push_back(std::move(token));
  }
  return ReadTops(meta, "input_top_logprobs", 1, &sequence->tokens);
}

Result<> ReadOutput(json::object meta, std::optional<int64_t> prompt_length,
                    const std::vector<int64_t>& output_ids, const ResponseContext& context,
                    ImportedSequence* sequence) {
  KCC_TRY(const std::vector<Triple> triples, ReadTriples(meta, "output_token_logprobs"));
  if (!output_ids.empty()) {
    KCC_TRY_VOID(CheckAlignment("output_token_logprobs", output_ids, 0, Ids(triples)));
  }
  const auto prompt_tokens = prompt_length ? prompt_length : context.options->prompt_tokens;
  if (!prompt_tokens) {
    return InvalidError(
        "meta_info.prompt_tokens is missing, so positions are unknown; give "
        "--prompt-tokens");
  }
  sequence->prompt_tokens = *prompt_tokens;
  // At temperature 0 SGLang does not scale.
  const bool greedy = sequence->temperature && *sequence->temperature == 0;
  sequence->semantics = context.options->semantics.value_or(
      greedy ? LogprobSemantics::kRaw : LogprobSemantics::kTemperatureScaled);
  for (size_t i = 0; i < triples.size(); ++i) {
    ImportedToken token;
    token.position = *prompt_tokens + static_cast<int64_t>(i);
    token.token = triples[i].id;
    token.logprob = triples[i].logprob;
    sequence->tokens.push_back(std::move(token));
  }
  return ReadTops(meta, "output_top_logprobs", 0, &sequence->tokens);
}

Result<ImportedSequence> ReadOne(json::object response, json::object meta,
                                 const ResponseContext& context) {
  ImportedSequence sequence;
  const auto length = JsonMember(meta, "prompt_tokens");
  const auto prompt_length = length ? JsonInteger(*length) : std::nullopt;
  const auto temperature = context.RequestMember("temperature");
  if (temperature) sequence.temperature = JsonNumber(*temperature);
  if (const auto latency = JsonMember(meta, "e2e_latency")) {
    if (const auto seconds = JsonNumber(*latency)) sequence.fields["latency_ms"] = *seconds * 1e3;
  }
  const std::string_view version = JsonText(JsonMember(meta, "weight_version"));
  if (!version.empty()) sequence.fields["weight_version"] = std::string(version);
  const auto ids = [&](std::string_view key) {
    return JsonTokenIds(JsonMember(response, key), key);
  };
  KCC_TRY(std::vector<int64_t> prompt_ids, ids("prompt_token_ids"));
  if (prompt_ids.empty()) {
    KCC_TRY(prompt_ids, context.PromptIds());
  }
  KCC_TRY(std::vector<int64_t> output_ids, ids("output_ids"));
  if (output_ids.empty()) {
    KCC_TRY(output_ids, ids("response_token_ids"));
  }
  const auto input = JsonMember(meta, "input_token_logprobs");
  json::array list;
  const bool has_input = input && input->get(list) == simdjson::SUCCESS && list.size() > 1;
  if (context.WantsPrompt(has_input)) {
    KCC_TRY_VOID(ReadInput(meta, prompt_length, prompt_ids, context, &sequence));
  } else {
    KCC_TRY_VOID(ReadOutput(meta, prompt_length, output_ids, context, &sequence));
  }
  return sequence;
}

}  // namespace

ResponseSequences ParseSglangResponse(json::object response, const ResponseContext& context) {
  json::object meta;
  const auto direct = JsonMember(response, "meta_info");
  if (direct && direct->get(meta) == simdjson::SUCCESS) {
    std::vector<ImportedSequence> sequences(1);
    KCC_TRY(sequences[0], ReadOne(response, meta, context));
    return sequences;
  }
  const auto read = [&](json::object choice, ImportedSequence* sequence) -> Result<> {
    const auto inner = JsonMember(choice, "meta_info");
    if (!inner || inner->get(meta) != simdjson::SUCCESS) {
      return BrokenEvidenceError(
          "the OpenAI routes of SGLang key log-probs by text, which cannot be mapped to token ids; "
          "use /generate, or ask with return_meta_info");
    }
    std::string suffix = std::move(sequence->suffix);
    KCC_TRY(*sequence, ReadOne(choice, meta, context));
    sequence->suffix = std::move(suffix);
    return {};
  };
  return ReadChoices(response, context,
                     "this is not an SGLang response: it has neither meta_info nor choices", read);
}

Result<ImportReport> ImportSglang(ImportInputs inputs, const std::string& output,
                                  const ImportOptions& options) {
  return ImportResponses(inputs, output, options, ParseSglangResponse);
}

}  // namespace kcc
