// vLLM: prompts are scored by /v1/completions; with trace replay given tokens are decoded, too.
#include <charconv>
#include <limits>

#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

using Names = std::string_view[];

// clang-format off
constexpr Names kCompletionsOwn = {
    "model", "prompt", "max_tokens", "temperature", "top_k", "top_p", "seed", "stop_token_ids",
    "logprobs", "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "cache_salt",
    "logit_bias"};
constexpr Names kCompletionsUser = {"priority", "ignore_eos", "min_tokens", "vllm_xargs"};
constexpr Names kAltering = {"min_tokens", "vllm_xargs"};
constexpr ServerRoute kCompletions = {"/v1/completions", kCompletionsOwn, kCompletionsUser};

constexpr Names kGenerateOwn = {
    "model", "token_ids", "sampling_params", "cache_salt", "trace_decode_token_ids", "max_tokens",
    "logprobs", "temperature", "top_k"};
constexpr Names kGenerateUser = {"priority"};
constexpr Names kChatMembers = {
    "messages", "add_generation_prompt", "continue_final_message", "add_special_tokens",
    "chat_template", "chat_template_kwargs", "tools"};
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

std::optional<int64_t> WholeNumber(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Whether the version is at least 0.11: "0.32.0", "0.11.1rc2.dev3". vLLM refuses a bias of a token
// that does not exist since 0.10; before, its engine may end of it.
bool RefusesUnknownTokens(std::string_view version) {
  const size_t dot = version.find('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view rest = version.substr(dot + 1);
  const auto major = WholeNumber(version.substr(0, dot));
  const auto minor = WholeNumber(rest.substr(0, rest.find('.')));
  return major && minor && (*major > 0 || *minor >= 11);
}

// No page of vLLM's says it. A bias of a token that no vocabulary has is refused before anything is
// computed, with "… out-of-vocab token ids. Vocabulary size: 512".
Result<int64_t> AskVocabulary(HttpPool& pool, const ServerFacts& facts) {
  constexpr std::string_view kWords = "Vocabulary size: ";
  if (!RefusesUnknownTokens(facts.version)) return 0;
  constexpr int32_t kPrompt[] = {0};
  RequestBody body(kCompletions);
  body.Field("model", facts.model).Ids("prompt", kPrompt).Field("max_tokens", 1);
  body.BiasByName(std::numeric_limits<int32_t>::max(), 1);
  KCC_TRY(const HttpReply reply, pool.Ask(body.Take({})));
  if (reply.status != 400) return 0;
  const size_t at = reply.body.find(kWords);
  if (at == std::string::npos) return 0;
  const std::string_view rest = std::string_view(reply.body).substr(at + kWords.size());
  const auto size = WholeNumber(rest.substr(0, rest.find_first_not_of("0123456789")));
  return size && *size > 0 && *size <= kVocabSizeMax ? *size : 0;
}

// The sum over its engines of kv_cache_memory_bytes, a label of vllm:cache_config_info. Where the
// size follows from the memory of a GPU the label is "None", and so nothing is known. What the
// cache takes is no less than what is used of it.
std::optional<double> KvCacheMb(std::string_view metrics) {
  constexpr std::string_view kMetric = "vllm:cache_config_info{";
  constexpr std::string_view kLabel = "kv_cache_memory_bytes=\"";
  std::optional<double> sum;
  for (size_t at = metrics.find(kMetric); at != std::string_view::npos;
       at = metrics.find(kMetric, at + 1)) {
    const std::string_view line = metrics.substr(at, metrics.find('\n', at) - at);
    const size_t label = line.find(kLabel);
    if (label == std::string_view::npos) return std::nullopt;
    const std::string_view rest = line.substr(label + kLabel.size());
    const size_t quote = rest.find('"');
    if (quote == std::string_view::npos) return std::nullopt;
    const auto bytes = WholeNumber(rest.substr(0, quote));
    if (!bytes || *bytes <= 0) return std::nullopt;
    sum = sum.value_or(0) + static_cast<double>(*bytes) / 1e6;
  }
  return sum;
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
    .ask_vocabulary = AskVocabulary,
    .kv_cache_mb = KvCacheMb,
    .generate = Generate,
    .tokenize = TokenizePrompt,
    .chat_members = kChatMembers,
    .parse = ParseVllmResponse,
    .tells_vocabulary = true,  // when asked for a token that it cannot have
    .altering = kAltering,
    .raw_remedy = "start vLLM with --logprobs-mode raw_logprobs",
};

}  // namespace kcc
