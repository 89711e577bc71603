#include "kcc/kernel/server_dialect.h"

#include <algorithm>
#include <array>

#include "kcc/base/strings.h"
#include "kcc/kernel/server_body.h"
#include "kcc/kernel/server_probe.h"

namespace kcc {
namespace {

constexpr double kForce = 1000;  // a logit bias that no logit outweighs

std::span<const int32_t> Prompt(const ScoreAsk& ask) {
  return ask.tokens.first(static_cast<size_t>(ask.prompt_tokens));
}
std::span<const int32_t> Continuation(const ScoreAsk& ask) {
  return ask.tokens.subspan(static_cast<size_t>(ask.prompt_tokens));
}

HttpCall VllmPrefill(const ServerFacts& facts, const ScoreAsk& ask, const std::string& salt) {
  RequestBody body(Route::kVllmCompletions);
  body.Field("model", facts.model).Ids("prompt", ask.tokens).Field("max_tokens", 1);
  body.Field("temperature", ask.temperature).Field("prompt_logprobs", ask.top);
  if (ask.narrow) body.Field("top_k", 2);
  body.Field("return_token_ids", true).Field("return_tokens_as_token_ids", true);
  body.Field("cache_salt", salt);
  return body.Take(facts.extra);
}

HttpCall VllmDecode(const ServerFacts& facts, const ScoreAsk& ask, const std::string& salt) {
  const auto forced = Continuation(ask);
  RequestBody body(Route::kVllmGenerate);
  body.Field("model", facts.model).Ids("token_ids", Prompt(ask)).Field("cache_salt", salt);
  body.Begin("sampling_params").Ids("trace_decode_token_ids", forced);
  // The engine takes min(trace, max_tokens), and max_tokens is 16 unless said.
  body.Field("max_tokens", forced.size()).Field("logprobs", ask.top);
  body.Field("temperature", ask.temperature);
  if (ask.narrow) body.Field("top_k", 2);
  body.End();
  return body.Take(facts.extra);
}

HttpCall SglangPrefill(const ServerFacts& facts, const ScoreAsk& ask, const std::string& salt) {
  RequestBody body(Route::kSglangGenerate);
  body.Ids("input_ids", ask.tokens).Begin("sampling_params").Field("max_new_tokens", 0);
  body.Field("temperature", ask.temperature);
  if (ask.narrow) body.Field("top_k", 2);
  body.End().Field("return_logprob", true);
  // Element 0 of the answer is always null, so the list starts one token before the first asked.
  body.Field("logprob_start_len", ask.prompt_tokens - 1).Field("top_logprobs_num", ask.top);
  body.Field("return_text_in_logprobs", false).Field("cache_salt", salt);
  return body.Take(facts.extra);
}

// llama.cpp has no log-probs of the prompt: each token is generated, forced by a bias or grammar.
HttpCall Llamacpp(const ServerFacts& facts, const ScoreAsk& ask, size_t part) {
  const auto forced = Continuation(ask);
  const bool decode = facts.path == TracePath::kDecode;
  RequestBody body(Route::kLlamacppCompletion);
  body.Ids("prompt",
           decode ? Prompt(ask) : ask.tokens.first(static_cast<size_t>(ask.prompt_tokens) + part));
  body.Field("n_predict", decode ? forced.size() : 1);
  body.Field("n_probs", ask.whole ? facts.vocab_size : std::max(ask.top, 1));
  body.Field("post_sampling_probs", false).Field("return_tokens", true);
  body.Field("cache_prompt", false).Field("temperature", ask.temperature);
  if (ask.narrow) body.Field("top_k", 2);
  if (!decode) {
    body.Bias(ask.whole ? facts.end[0] : forced[part], kForce);
    return body.Take(facts.extra);
  }
  // A grammar cannot name an id that ends a generation, but once it is complete only such ids are
  // left; the bias picks the right one.
  const int32_t last = forced.back();
  const bool ends = std::find(facts.end.begin(), facts.end.end(), last) != facts.end.end();
  std::string grammar = "root ::=";
  for (const int32_t id : forced.first(forced.size() - (ends ? 1 : 0))) {
    grammar += " <[" + std::to_string(id) + "]>";
  }
  if (ends) body.Bias(last, kForce);
  if (grammar == "root ::=") grammar += " \"\"";
  body.Field("grammar", grammar);
  return body.Take(facts.extra);
}

HttpCall TrtllmPrefill(const ServerFacts& facts, const ScoreAsk& ask) {
  RequestBody body(Route::kTrtllmCompletions);
  body.Field("model", facts.model).Ids("prompt", ask.tokens).Field("max_tokens", 1);
  body.Field("temperature", ask.temperature);
  if (ask.narrow) body.Field("top_k", 2);
  body.Field("return_context_logits", true).Field("detokenize", false);
  return body.Take(facts.extra);
}

ResponseParser ParserOf(ServerKind kind) {
  switch (kind) {
    case ServerKind::kVllm:
      return ParseVllmResponse;
    case ServerKind::kSglang:
      return ParseSglangResponse;
    case ServerKind::kLlamacpp:
      return ParseLlamacppResponse;
    case ServerKind::kTrtllm:
      return ParseTrtllmResponse;
  }
  return ParseVllmResponse;
}

Route RouteOf(const ServerFacts& facts) {
  switch (facts.kind) {
    case ServerKind::kVllm:
      return facts.path == TracePath::kDecode ? Route::kVllmGenerate : Route::kVllmCompletions;
    case ServerKind::kSglang:
      return Route::kSglangGenerate;
    case ServerKind::kLlamacpp:
      return Route::kLlamacppCompletion;
    case ServerKind::kTrtllm:
      return Route::kTrtllmCompletions;
  }
  return Route::kVllmCompletions;
}

// The one sequence of an answer, read with the request it answers.
struct Parsed {
  json::parser response_parser;
  json::parser request_parser;
  json::object response;
  ImportedSequence sequence;
};

Result<> Parse(const ServerFacts& facts, const HttpCall& call, const std::string& body,
               const ImportOptions& options, Parsed* parsed) {
  const auto root = ParseJson(parsed->response_parser, body);
  if (!root.has_value() || root->get(parsed->response) != simdjson::SUCCESS) {
    return BrokenEvidenceError(
        "the answer is no JSON object: " +
        (root.has_value() ? "it is " + std::string(JsonTypeName(*root)) : root.error().message()));
  }
  KCC_TRY(const json::element request, ParseJson(parsed->request_parser, call.body));
  std::vector<std::string> warnings;
  ResponseContext context;
  context.options = &options;
  json::object object;
  if (request.get(object) == simdjson::SUCCESS) context.request = object;
  context.warnings = &warnings;
  KCC_TRY(std::vector<ImportedSequence> sequences, ParserOf(facts.kind)(parsed->response, context));
  if (sequences.size() != 1) {
    return BrokenEvidenceError("the answer holds " + std::to_string(sequences.size()) +
                               " choices for one request");
  }
  parsed->sequence = std::move(sequences[0]);
  return {};
}

std::string FingerprintOf(const ImportedSequence& sequence) {
  if (!sequence.fingerprint.empty()) return sequence.fingerprint;
  const auto version = sequence.fields.find("weight_version");
  if (version == sequence.fields.end()) return "";
  const auto* text = std::get_if<std::string>(&version->second);
  return text != nullptr ? *text : "";
}

// vLLM says which prompt it scored; anything else than what was sent is not evidence about it.
Result<> CheckPromptEcho(json::object response, std::span<const int32_t> tokens) {
  json::array choices;
  json::object choice;
  const auto member = JsonMember(response, "choices");
  if (!member || member->get(choices) != simdjson::SUCCESS || choices.size() == 0 ||
      choices.at(0).get(choice) != simdjson::SUCCESS) {
    return {};  // the parser has words for it
  }
  const std::vector<int64_t> echoed = JsonIntegers(JsonMember(choice, "prompt_token_ids"));
  if (echoed.empty()) {
    return BrokenEvidenceError(
        "the answer has no prompt_token_ids, so nothing shows that the server scored the tokens "
        "that were sent; vLLM gives them since 0.10.2, and a proxy must not drop them");
  }
  return CheckAlignment("prompt_token_ids", std::vector<int64_t>(tokens.begin(), tokens.end()), 0,
                        echoed);
}

Result<> CheckTops(const ServerFacts& facts, const std::vector<ImportedToken>& tokens,
                   int32_t top) {
  // vLLM's generate cuts to `top` with the forced token in the list, so the last may be lost.
  const bool loses_one = facts.kind == ServerKind::kVllm && facts.path == TracePath::kDecode;
  const auto asked = std::min<int64_t>(top, facts.vocab_size);
  const auto least = static_cast<size_t>(std::max<int64_t>(0, asked - (loses_one ? 1 : 0)));
  for (const ImportedToken& token : tokens) {
    if (token.logits.empty() && token.top.size() < least) {
      return BrokenEvidenceError("position " + std::to_string(token.position) + " has " +
                                 std::to_string(token.top.size()) +
                                 " alternatives with ids, asked for were " + std::to_string(asked) +
                                 "; the server gives fewer, or names them by text alone");
    }
  }
  return {};
}

// The forced end token's list holds every token; the answer is made to be about the one meant.
Result<> PickFromWhole(int32_t meant, std::vector<ImportedToken>* tokens) {
  if (tokens->size() != 1) return {};  // the alignment has words for it
  ImportedToken& token = (*tokens)[0];
  for (const TopEntry& entry : token.top) {
    if (entry.id != meant) continue;
    token.token = meant;
    token.logprob = entry.logprob;
    return {};
  }
  return BrokenEvidenceError("token " + std::to_string(meant) +
                             " is not among the alternatives, though the whole vocabulary was "
                             "asked for");
}

std::vector<int64_t> TokenIds(const std::vector<ImportedToken>& tokens) {
  std::vector<int64_t> ids;
  ids.reserve(tokens.size());
  for (const ImportedToken& token : tokens) ids.push_back(token.token);
  return ids;
}

}  // namespace

Result<TracePath> ChoosePath(ServerKind kind, std::optional<TracePath> asked) {
  if (kind == ServerKind::kLlamacpp) return asked.value_or(TracePath::kDecode);
  const TracePath path = asked.value_or(TracePath::kPrefill);
  if (path == TracePath::kDecode && kind != ServerKind::kVllm) {
    return InvalidError(std::string(Name(kind)) +
                        " has no way to force tokens while it decodes; use path=prefill, or vllm "
                        "with trace replay or llamacpp for the decode path");
  }
  return path;
}

Result<> CheckExtraFields(const ServerFacts& facts) {
  return CheckUserFields(RouteOf(facts), facts.extra);
}

Result<> CheckAskable(const ServerFacts& facts, const ScoreAsk& ask) {
  const auto count = static_cast<int64_t>(ask.tokens.size());
  if (ask.prompt_tokens < 1 || ask.prompt_tokens > count) {
    return InvalidError("the prompt has " + std::to_string(ask.prompt_tokens) + " of " +
                        std::to_string(count) +
                        " tokens; it must have at least one, since nothing predicts the first");
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t id = ask.tokens[static_cast<size_t>(i)];
    if (id < 0 || (facts.vocab_size > 0 && id >= facts.vocab_size)) {
      return InvalidError("the token id " + std::to_string(id) + " at position " +
                          std::to_string(i) + " is outside the server's vocabulary of " +
                          std::to_string(facts.vocab_size) + ": another tokeniser?");
    }
    const bool ends = std::find(facts.end.begin(), facts.end.end(), id) != facts.end.end();
    if (ends && facts.kind == ServerKind::kLlamacpp && facts.path == TracePath::kDecode &&
        i >= ask.prompt_tokens && i + 1 < count) {
      return InvalidError("the token id " + std::to_string(id) + " at position " +
                          std::to_string(i) +
                          " ends a generation in llama.cpp, so what follows cannot be forced while "
                          "it decodes; use path=prefill");
    }
  }
  return {};
}

size_t ScoreCalls(const ServerFacts& facts, const ScoreAsk& ask) {
  const size_t scored = Continuation(ask).size();
  if (scored == 0) return 0;
  const bool by_token = facts.kind == ServerKind::kLlamacpp && facts.path == TracePath::kPrefill;
  return by_token ? scored : 1;
}

HttpCall ScoreCall(const ServerFacts& facts, const ScoreAsk& ask, size_t part,
                   const std::string& salt) {
  switch (facts.kind) {
    case ServerKind::kVllm:
      return facts.path == TracePath::kDecode ? VllmDecode(facts, ask, salt)
                                              : VllmPrefill(facts, ask, salt);
    case ServerKind::kSglang:
      return SglangPrefill(facts, ask, salt);
    case ServerKind::kLlamacpp:
      return Llamacpp(facts, ask, part);
    case ServerKind::kTrtllm:
      return TrtllmPrefill(facts, ask);
  }
  return {};
}

Result<ScoreAnswer> ReadScore(const ServerFacts& facts, const ScoreAsk& ask, size_t part,
                              const std::string& body) {
  const bool about_prompt =
      facts.path == TracePath::kPrefill && facts.kind != ServerKind::kLlamacpp;
  const bool by_token =
      facts.kind == ServerKind::kLlamacpp && !about_prompt && facts.path == TracePath::kPrefill;
  const auto first = static_cast<int64_t>(ask.prompt_tokens) + static_cast<int64_t>(part);
  ImportOptions options;
  options.prompt = about_prompt;
  options.prompt_tokens = first;
  Parsed parsed;
  KCC_TRY_VOID(Parse(facts, ScoreCall(facts, ask, part, ""), body, options, &parsed));
  if (facts.kind == ServerKind::kVllm && about_prompt) {
    KCC_TRY_VOID(CheckPromptEcho(parsed.response, ask.tokens));
  }
  if (facts.kind == ServerKind::kLlamacpp) {  // its entries say so themselves
    KCC_TRY_VOID(CheckSemantics(facts.kind, LogprobSemantics::kRaw, parsed.sequence.semantics));
  }
  ScoreAnswer answer;
  answer.fingerprint = FingerprintOf(parsed.sequence);
  for (ImportedToken& token : parsed.sequence.tokens) {
    if (token.position >= first) answer.tokens.push_back(std::move(token));
  }
  if (ask.whole) {
    KCC_TRY_VOID(PickFromWhole(ask.tokens[static_cast<size_t>(first)], &answer.tokens));
  }
  std::vector<int64_t> expected(ask.tokens.begin() + first, ask.tokens.end());
  if (by_token) expected.resize(1);
  KCC_TRY_VOID(CheckAlignment("the log-probs of the answer", expected, 0, TokenIds(answer.tokens)));
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    if (answer.tokens[i].position != first + static_cast<int64_t>(i)) {
      return BrokenEvidenceError(
          "the server counts " +
          std::to_string(answer.tokens[i].position - static_cast<int64_t>(i)) +
          " prompt tokens, sent were " + std::to_string(first) + ": it adds or cuts tokens");
    }
  }
  // What sampling leaves of a list is what the narrow probe asks about.
  if (!ask.narrow) KCC_TRY_VOID(CheckTops(facts, answer.tokens, ask.top));
  return answer;
}

bool KeepsFragmentBack(const ServerFacts& facts, const std::string& body) {
  if (facts.kind != ServerKind::kLlamacpp || facts.path != TracePath::kPrefill) return false;
  json::parser parser;
  const auto root = ParseJson(parser, body);
  json::object response;
  if (!root.has_value() || root->get(response) != simdjson::SUCCESS) return false;
  const auto entries = JsonList(JsonMember(response, "completion_probabilities"));
  return (!entries || entries->empty()) && !JsonIntegers(JsonMember(response, "tokens")).empty();
}

HttpCall GenerateCall(const ServerFacts& facts, const GenerateAsk& ask, const std::string& salt) {
  const Sampling& how = ask.sampling;
  const auto sample = [&](RequestBody& body, std::string_view seed) {
    body.Field("temperature", how.temperature);
    if (how.top_k > 0) body.Field("top_k", how.top_k);
    if (how.top_p < 1) body.Field("top_p", how.top_p);
    body.Field(seed, ask.seed & 0x7fffffff);  // all four take 31 bits
  };
  RequestBody body(facts.kind == ServerKind::kVllm ? Route::kVllmCompletions : RouteOf(facts));
  switch (facts.kind) {
    case ServerKind::kVllm:
    case ServerKind::kTrtllm:
      body.Field("model", facts.model).Ids("prompt", ask.prompt);
      body.Field("max_tokens", how.output_tokens_max);
      sample(body, "seed");
      if (!how.stop.empty()) body.Ids("stop_token_ids", how.stop);
      body.Field("logprobs", facts.kind == ServerKind::kVllm ? ask.top : 1);
      if (facts.kind == ServerKind::kTrtllm) {
        body.Field("detokenize", false);
      } else {
        body.Field("return_token_ids", true).Field("return_tokens_as_token_ids", true);
        body.Field("cache_salt", salt);
      }
      break;
    case ServerKind::kSglang:
      body.Ids("input_ids", ask.prompt).Begin("sampling_params");
      body.Field("max_new_tokens", how.output_tokens_max);
      sample(body, "sampling_seed");
      if (!how.stop.empty()) body.Ids("stop_token_ids", how.stop);
      body.End().Field("return_logprob", true).Field("top_logprobs_num", ask.top);
      body.Field("return_text_in_logprobs", false).Field("cache_salt", salt);
      break;
    case ServerKind::kLlamacpp:
      body.Ids("prompt", ask.prompt).Field("n_predict", how.output_tokens_max);
      body.Field("n_probs", std::max(ask.top, 1)).Field("post_sampling_probs", false);
      body.Field("return_tokens", true).Field("cache_prompt", false);
      sample(body, "seed");
      // Its own defaults would cut the distribution (top_k 40, top_p 0.95, min_p 0.05).
      if (how.top_k <= 0) body.Field("top_k", 0);
      if (how.top_p >= 1) body.Field("top_p", 1);
      body.Field("min_p", 0);
      break;
  }
  return body.Take(facts.extra);
}

Result<ScoreAnswer> ReadGenerated(const ServerFacts& facts, const GenerateAsk& ask,
                                  const std::string& body) {
  ImportOptions options;
  options.prompt = false;
  options.semantics = ask.semantics;
  options.prompt_tokens = static_cast<int64_t>(ask.prompt.size());
  Parsed parsed;
  KCC_TRY_VOID(Parse(facts, GenerateCall(facts, ask, ""), body, options, &parsed));
  if (facts.kind == ServerKind::kLlamacpp) {
    KCC_TRY_VOID(CheckSemantics(facts.kind, ask.semantics, parsed.sequence.semantics));
  }
  ScoreAnswer answer;
  answer.fingerprint = FingerprintOf(parsed.sequence);
  answer.tokens = std::move(parsed.sequence.tokens);
  auto position = static_cast<int64_t>(ask.prompt.size());
  const int64_t vocab_size = facts.vocab_size > 0 ? facts.vocab_size : kVocabSizeMax;
  for (const ImportedToken& token : answer.tokens) {
    if (token.token < 0 || token.token >= vocab_size) {
      return BrokenEvidenceError("the server wrote the token id " + std::to_string(token.token) +
                                 ", outside its vocabulary of " + std::to_string(vocab_size));
    }
    if (token.position != position++) {
      return BrokenEvidenceError("the server counts another prompt than the " +
                                 std::to_string(ask.prompt.size()) + " tokens that were sent");
    }
  }
  return answer;
}

}  // namespace kcc
