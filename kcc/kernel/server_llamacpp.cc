// llama.cpp's llama-server has no log-probs of the prompt: each token is generated, forced by a
// logit bias (prefill path, one call a token) or by a grammar (decode path).
//
// A grammar cannot name every token: not a fragment of a character, not one that ends a generation.
// The decode path then goes on in parts. The run before such a token is forced by a grammar, the
// token itself by a bias after all that stands before it, and the rest begins with a longer prompt.
// So it is computed as the first token of every answer is, from the last position of a prompt.
#include <algorithm>

#include "kcc/base/json_writer.h"
#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

constexpr double kForce = 1000;  // a logit bias that no logit outweighs

using Names = std::string_view[];

// clang-format off
constexpr Names kCompletionOwn = {
    "prompt", "n_predict", "n_probs", "post_sampling_probs", "return_tokens", "cache_prompt",
    "temperature", "top_k", "top_p", "min_p", "seed", "grammar", "logit_bias"};
constexpr Names kCompletionUser = {"model", "id_slot", "lora", "ignore_eos"};
constexpr Names kAltering = {"ignore_eos"};  // it takes the end token out
constexpr ServerRoute kCompletion = {"/completion", kCompletionOwn, kCompletionUser};

constexpr Names kProps = {"model_ftype", "total_slots"};
// clang-format on

// The fields of both paths.
void AddCommon(const ServerFacts& facts, const ScoreAsk& ask, std::span<const int32_t> prompt,
               size_t count, RequestBody* body) {
  body->Ids("prompt", prompt).Field("n_predict", count);
  body->Field("n_probs", ask.whole ? facts.vocab_size : std::max(ask.top, 1));
  body->Field("post_sampling_probs", false).Field("return_tokens", true);
  body->Field("cache_prompt", false).Field("temperature", ask.temperature);
  if (ask.narrow) body->Field("top_k", 2);
}

HttpCall ScoreByBias(const ServerFacts& facts, const ScoreAsk& ask, const std::string& /*salt*/) {
  RequestBody body(kCompletion);
  AddCommon(facts, ask, ask.Prompt(), 1, &body);
  body.Bias(ask.whole ? facts.end[0] : ask.Continuation()[0], kForce);
  return body.Take(facts.extra);
}

HttpCall ScoreByGrammar(const ServerFacts& facts, const ScoreAsk& ask, const std::string& salt) {
  const auto forced = ask.Continuation();
  const auto known = facts.forceable.find(forced.front());
  if (ask.whole || (known != facts.forceable.end() && !known->second)) {
    return ScoreByBias(facts, ask, salt);
  }
  RequestBody body(kCompletion);
  AddCommon(facts, ask, ask.Prompt(), forced.size(), &body);
  // A grammar cannot name an id that ends a generation, but once it is complete only such ids are
  // left; the bias picks the right one.
  const int32_t last = forced.back();
  const bool ends = std::find(facts.end.begin(), facts.end.end(), last) != facts.end.end();
  std::string grammar = "root ::=";
  for (const int32_t id : forced.first(forced.size() - (ends ? 1 : 0))) {
    grammar += " <[" + std::to_string(id) + "]>";
  }
  if (ends) body.Bias(last, kForce);
  if (grammar == "root ::=") grammar += " \"\"";  // where nobody asked whether it can be forced
  body.Field("grammar", grammar);
  return body.Take(facts.extra);
}

HttpCall Generate(const ServerFacts& facts, const GenerateAsk& ask, const std::string& /*salt*/) {
  const Sampling& how = ask.sampling;
  RequestBody body(kCompletion);
  body.Ids("prompt", ask.prompt).Field("n_predict", how.output_tokens_max);
  body.Field("n_probs", std::max(ask.top, 1)).Field("post_sampling_probs", false);
  body.Field("return_tokens", true).Field("cache_prompt", false);
  AddSampling(ask, "seed", 0, &body);
  // Its own default would cut the distribution (0.05).
  body.Field("min_p", 0);
  return body.Take(facts.extra);
}

// The numbers of a token that is a fragment of a character are kept back, the token is not.
bool HoldsFragmentBack(const std::string& body) {
  json::parser parser;
  const auto root = ParseJson(parser, body);
  json::object response;
  if (!root.has_value() || root->get(response) != simdjson::SUCCESS) return false;
  const auto entries = JsonList(JsonMember(response, "completion_probabilities"));
  return (!entries || entries->empty()) && !JsonIntegers(JsonMember(response, "tokens")).empty();
}

// Texts of tokens by which llama.cpp knows that they end a generation, whatever eos is.
constexpr Names kEndTexts = {"</s>",
                             "<eos>",
                             "<EOT>",
                             "_<EOT>",
                             "[EOT]",
                             "[EOS]",
                             "<end_of_turn>",
                             "<|eot_id|>",
                             "<|eom_id|>",
                             "<|im_end|>",
                             "<|end|>",
                             "<|return|>",
                             "<|call|>",
                             "<|endoftext|>",
                             "<|end_of_text|>",
                             "<|end_of_turn|>",
                             "<end_of_utterance>"};

// A grammar is matched by characters, even where it names ids: llama.cpp takes a token out of the
// choice if its text is empty, begins with NUL or is no whole number of characters. Such bytes come
// as U+FFFD; a token that is that very character is asked by itself, which is no harm.
bool GrammarTakes(std::string_view text) {
  return !text.empty() && text.front() != '\0' &&
         text.find("\xEF\xBF\xBD") == std::string_view::npos;
}

Result<> LearnForceable(HttpPool& pool, std::span<const int32_t> ids, ServerFacts* facts) {
  const auto call = [&](size_t i) {
    return HttpCall{"/detokenize", "{\"tokens\":[" + std::to_string(ids[i]) + "]}"};
  };
  const auto take = [&](size_t i, const HttpReply& reply) -> Result<> {
    json::parser parser;
    KCC_TRY(const json::element root, ParseJson(parser, reply.body));
    json::object object;
    if (root.get(object) != simdjson::SUCCESS || !JsonMember(object, "content")) {
      return BrokenEvidenceError("/detokenize does not give the text of a token");
    }
    const std::string_view text = JsonText(JsonMember(object, "content"));
    const bool ends =
        std::find(std::begin(kEndTexts), std::end(kEndTexts), text) != std::end(kEndTexts) ||
        std::find(facts->end.begin(), facts->end.end(), ids[i]) != facts->end.end();
    facts->forceable[ids[i]] = GrammarTakes(text) && !ends;
    return {};
  };
  return pool.Run(ids.size(), call, take);
}

HttpCall Tokenize(const std::string& /*model*/, const std::string& text, bool begins) {
  JsonWriter body(JsonWriter::Style::kCompact);
  body.BeginObject().Field("content", text).Field("add_special", begins);
  return {"/tokenize", body.Field("parse_special", true).EndObject().Take()};
}

// The end token is named as text; the server's own tokenizer says which id that is.
Result<> FindEnd(HttpPool& pool, const ServerDocument& props, ServerFacts* facts) {
  const std::string_view eos = JsonText(JsonMember(props.object, "eos_token"));
  if (eos.empty()) return {};
  KCC_TRY(const HttpReply reply, pool.Ask(Tokenize("", std::string(eos), false)));
  if (reply.status != 200) return {};
  json::parser parser;
  const auto root = ParseJson(parser, reply.body);
  json::object object;
  if (!root.has_value() || root->get(object) != simdjson::SUCCESS) return {};
  KCC_TRY(const std::vector<int64_t> ids, JsonTokenIds(JsonMember(object, "tokens"), "tokens"));
  if (ids.size() == 1 && ids[0] >= 0 && ids[0] < kVocabSizeMax) {
    facts->end.push_back(static_cast<int32_t>(ids[0]));
  }
  return {};
}

Result<> Identify(HttpPool& pool, ServerFacts* facts) {
  ServerDocument props;
  KCC_TRY_VOID(GetDocument(pool, "/props", &props));
  facts->version = JsonText(JsonMember(props.object, "build_info"));
  KeepIdentity(props, kProps, facts);
  return FindEnd(pool, props, facts);
}

constexpr ServerPath kPaths[] = {
    {.kind = TracePath::kDecode,
     .route = &kCompletion,
     .score = ScoreByGrammar,
     .learn = LearnForceable,
     .holds_back = HoldsFragmentBack,
     .question = "`/completion`, runs of tokens forced by a grammar",
     .evidence = "top-k, raw"},
    {.kind = TracePath::kPrefill,
     .route = &kCompletion,
     .score = ScoreByBias,
     .by_token = true,
     .holds_back = HoldsFragmentBack,
     .question = "`/completion`, one call a token, forced by a bias",
     .evidence = "top-k, raw"},
};

}  // namespace

constinit const ServerDialect kLlamacppServer = {
    .name = "llamacpp",
    .title = "llama.cpp",
    .paths = kPaths,
    .port = 8080,
    .owner = "llamacpp",
    .identify = Identify,
    .generate = Generate,
    .tokenize = Tokenize,
    .parse = ParseLlamacppResponse,
    .tells_vocabulary = true,
    .says_semantics = true,
    .generated = GeneratedMeaning::kRaw,
    .generated_gaps = true,  // fragments of characters
    .altering = kAltering,
    .raw_remedy = "switch off post-sampling probabilities",
    .stuck = "empty grammar stack",
    .stuck_advice =
        "llama.cpp cannot be forced to one of the tokens while it decodes; if it ends a "
        "generation, name it with end=ID, else use path=prefill",
};

}  // namespace kcc
