// SGLang: /generate scores a prompt without writing anything; tokens cannot be forced.
#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

using Names = std::string_view[];

// clang-format off
constexpr Names kGenerateOwn = {
    "input_ids", "sampling_params", "max_new_tokens", "temperature", "top_k", "top_p",
    "sampling_seed", "stop_token_ids", "return_logprob", "logprob_start_len", "top_logprobs_num",
    "return_text_in_logprobs", "cache_salt"};
constexpr Names kGenerateUser = {"priority", "lora_path", "routed_dp_rank", "session_id"};
constexpr ServerRoute kGenerate = {"/generate", kGenerateOwn, kGenerateUser};

// The server's arguments that decide which kernels run.
constexpr Names kArguments = {
    "model_path", "dtype", "quantization", "kv_cache_dtype", "tp_size", "attention_backend",
    "sampling_backend", "enable_deterministic_inference", "chunked_prefill_size",
    "disable_radix_cache"};
constexpr Names kModel = {"weight_version"};
// clang-format on

HttpCall ScorePrompt(const ServerFacts& facts, const ScoreAsk& ask, const std::string& salt) {
  RequestBody body(kGenerate);
  body.Ids("input_ids", ask.tokens).Begin("sampling_params").Field("max_new_tokens", 0);
  body.Field("temperature", ask.temperature);
  if (ask.narrow) body.Field("top_k", 2);
  body.End().Field("return_logprob", true);
  // Element 0 of the answer is always null, so the list starts one token before the first asked.
  body.Field("logprob_start_len", ask.prompt_tokens - 1).Field("top_logprobs_num", ask.top);
  body.Field("return_text_in_logprobs", false).Field("cache_salt", salt);
  return body.Take(facts.extra);
}

HttpCall Generate(const ServerFacts& facts, const GenerateAsk& ask, const std::string& salt) {
  RequestBody body(kGenerate);
  body.Ids("input_ids", ask.prompt).Begin("sampling_params");
  body.Field("max_new_tokens", ask.sampling.output_tokens_max);
  AddSampling(ask, "sampling_seed", -1, &body);
  if (!ask.sampling.stop.empty()) body.Ids("stop_token_ids", ask.sampling.stop);
  body.End().Field("return_logprob", true).Field("top_logprobs_num", ask.top);
  body.Field("return_text_in_logprobs", false).Field("cache_salt", salt);
  return body.Take(facts.extra);
}

Result<> Identify(HttpPool& pool, ServerFacts* facts) {
  ServerDocument server;
  KCC_TRY_VOID(GetDocument(pool, "/server_info", &server));
  facts->version = JsonText(JsonMember(server.object, "version"));
  KeepIdentity(server, kArguments, facts);
  ServerDocument model;
  KCC_TRY_VOID(GetDocument(pool, "/model_info", &model));
  KeepIdentity(model, kModel, facts);
  return {};
}

constexpr ServerPath kPaths[] = {
    {.kind = TracePath::kPrefill,
     .route = &kGenerate,
     .score = ScorePrompt,
     .about_prompt = true,
     .question = "`/generate` with `logprob_start_len`",
     .evidence = "top-k, raw"},
};

}  // namespace

constinit const ServerDialect kSglangServer = {
    .name = "sglang",
    .title = "SGLang",
    .paths = kPaths,
    .port = 30000,
    .owner = "sglang",
    .identify = Identify,
    .generate = Generate,
    .tokenize = TokenizePrompt,
    .parse = ParseSglangResponse,
    .generated_default = LogprobSemantics::kTemperatureScaled,
    .raw_remedy =
        "start SGLang with SGLANG_RETURN_ORIGINAL_LOGPROB=1 in its environment, and "
        "without a temperature for input log-probs",
};

}  // namespace kcc
