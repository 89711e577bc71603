// vLLM: prompts are scored by /v1/completions; with trace replay given tokens are decoded, too.
#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

using Names = std::string_view[];

// clang-format off
constexpr Names kCompletionsOwn = {
    "model", "prompt", "max_tokens", "temperature", "top_k", "top_p", "seed", "stop_token_ids",
    "logprobs", "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "cache_salt"};
constexpr Names kCompletionsUser = {"priority", "ignore_eos", "min_tokens", "vllm_xargs"};
constexpr Names kAltering = {"min_tokens", "vllm_xargs"};
constexpr ServerRoute kCompletions = {"/v1/completions", kCompletionsOwn, kCompletionsUser};

constexpr Names kGenerateOwn = {
    "model", "token_ids", "sampling_params", "cache_salt", "trace_decode_token_ids", "max_tokens",
    "logprobs", "temperature", "top_k"};
constexpr Names kGenerateUser = {"priority"};
constexpr ServerRoute kGenerate = {"/inference/v1/generate", kGenerateOwn, kGenerateUser};
// clang-format on

HttpCall ScorePrompt(const ServerFacts& facts, const ScoreAsk& ask, const std::string& salt) {
  RequestBody body(kCompletions);
  body.Field("model", facts.model).Ids("prompt", ask.tokens).Field("max_tokens", 1);
  body.Field("temperature", ask.temperature).Field("prompt_logprobs", ask.top);
  if (ask.narrow) body.Field("top_k", 2);
  body.Field("return_token_ids", true).Field("return_tokens_as_token_ids", true);
  body.Field("cache_salt", salt);
  return body.Take(facts.extra);
}

HttpCall ScoreReplay(const ServerFacts& facts, const ScoreAsk& ask, const std::string& salt) {
  const auto forced = ask.Continuation();
  RequestBody body(kGenerate);
  body.Field("model", facts.model).Ids("token_ids", ask.Prompt()).Field("cache_salt", salt);
  body.Begin("sampling_params").Ids("trace_decode_token_ids", forced);
  // The engine takes min(trace, max_tokens), and max_tokens is 16 unless said.
  body.Field("max_tokens", forced.size()).Field("logprobs", ask.top);
  body.Field("temperature", ask.temperature);
  if (ask.narrow) body.Field("top_k", 2);
  body.End();
  return body.Take(facts.extra);
}

HttpCall Generate(const ServerFacts& facts, const GenerateAsk& ask, const std::string& salt) {
  RequestBody body(kCompletions);
  body.Field("model", facts.model).Ids("prompt", ask.prompt);
  body.Field("max_tokens", ask.sampling.output_tokens_max);
  AddSampling(ask, "seed", -1, &body);
  if (!ask.sampling.stop.empty()) body.Ids("stop_token_ids", ask.sampling.stop);
  body.Field("logprobs", ask.top);
  body.Field("return_token_ids", true).Field("return_tokens_as_token_ids", true);
  body.Field("cache_salt", salt);
  return body.Take(facts.extra);
}

// vLLM says which prompt it scored; anything else than what was sent is not evidence about it.
Result<> CheckPromptEcho(json::object response, const ScoreAsk& ask) {
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
  return CheckAlignment("prompt_token_ids",
                        std::vector<int64_t>(ask.tokens.begin(), ask.tokens.end()), 0, echoed);
}

constexpr ServerPath kPaths[] = {
    {.kind = TracePath::kPrefill,
     .route = &kCompletions,
     .score = ScorePrompt,
     .about_prompt = true,
     .check = CheckPromptEcho,
     .question = "`/v1/completions` with `prompt_logprobs`",
     .evidence = "top-k, raw"},
    {.kind = TracePath::kDecode,
     .route = &kGenerate,
     .score = ScoreReplay,
     .any_semantics = true,
     .tops_lost = 1,  // it cuts to `top` with the forced token in the list
     .needs = "trace replay",
     .question = "`/inference/v1/generate` with `trace_decode_token_ids`",
     .evidence = "top-k; the last of k is lost where the forced token is not among the best"},
};

}  // namespace

constinit const ServerDialect kVllmServer = {
    .name = "vllm",
    .title = "vLLM",
    .paths = kPaths,
    .port = 8000,
    .owner = "vllm",
    .identify = IdentifyByVersion,
    .generate = Generate,
    .tokenize = TokenizePrompt,
    .parse = ParseVllmResponse,
    .altering = kAltering,
    .raw_remedy = "start vLLM with --logprobs-mode raw_logprobs",
};

}  // namespace kcc
