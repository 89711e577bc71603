// TensorRT-LLM's trtllm-serve: context logits of the whole sequence; tokens cannot be forced. It
// rejects a request with a field that it does not know.
#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

using Names = std::string_view[];

// clang-format off
constexpr Names kCompletionsOwn = {
    "model", "prompt", "max_tokens", "temperature", "top_k", "top_p", "seed", "stop_token_ids",
    "logprobs", "return_context_logits", "detokenize"};
constexpr Names kCompletionsUser = {"lora_request", "ignore_eos", "min_tokens"};
constexpr Names kAltering = {"min_tokens"};
constexpr ServerRoute kCompletions = {"/v1/completions", kCompletionsOwn, kCompletionsUser};
// clang-format on

HttpCall ScorePrompt(const ServerFacts& facts, const ScoreAsk& ask, const std::string& /*salt*/) {
  RequestBody body(kCompletions);
  body.Field("model", facts.model).Ids("prompt", ask.tokens).Field("max_tokens", 1);
  body.Field("temperature", ask.temperature);
  if (ask.narrow) body.Field("top_k", 2);
  body.Field("return_context_logits", true).Field("detokenize", false);
  return body.Take(facts.extra);
}

HttpCall Generate(const ServerFacts& facts, const GenerateAsk& ask, const std::string& /*salt*/) {
  RequestBody body(kCompletions);
  body.Field("model", facts.model).Ids("prompt", ask.prompt);
  body.Field("max_tokens", ask.sampling.output_tokens_max);
  AddSampling(ask, "seed", 0, &body);
  if (!ask.sampling.stop.empty()) body.Ids("stop_token_ids", ask.sampling.stop);
  body.Field("logprobs", 1).Field("detokenize", false);
  return body.Take(facts.extra);
}

constexpr ServerPath kPaths[] = {
    {.kind = TracePath::kPrefill,
     .route = &kCompletions,
     .score = ScorePrompt,
     .about_prompt = true,
     .logits = true,
     .question = "`/v1/completions` with `return_context_logits`",
     .evidence = "full logits"},
};

}  // namespace

constinit const ServerDialect kTrtllmServer = {
    .name = "trtllm",
    .title = "TensorRT-LLM",
    .paths = kPaths,
    .port = 8000,
    .owner = "tensorrt_llm",
    .identify = IdentifyByVersion,
    .generate = Generate,
    .parse = ParseTrtllmResponse,
    .tells_vocabulary = true,  // with its first row of logits
    .generated = GeneratedMeaning::kAsTold,
    .generated_lists = false,  // they are keyed by text
    .altering = kAltering,
    .raw_remedy = "the server must give context logits as the model computed them",
};

}  // namespace kcc
