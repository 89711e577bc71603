// A server as data: all that differs between vLLM, SGLang, llama.cpp and TensorRT-LLM is one
// ServerDialect, and the code about servers reads it instead of asking which server it has.
//
//              prefill path                                   decode path
//   vLLM       /v1/completions, prompt_logprobs                /inference/v1/generate, trace replay
//   SGLang     /generate, logprob_start_len = prompt - 1       none
//   llama.cpp  /completion, one call a token                   /completion, runs by a grammar
//   TRT-LLM    /v1/completions, return_context_logits          none
//
// Each has a file of its own, server_NAME.cc; server_table.h lists them. Only token ids go out,
// never text. Shapes and traps: docs/servers.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/server_body.h"
#include "kcc/kernel/server_options.h"
#include "kcc/trace/import_responses.h"

namespace kcc {

struct ServerPath;

// A server as it was found at the start.
struct ServerFacts {
  const ServerDialect* server = nullptr;
  const ServerPath* path = nullptr;  // one of the server's
  std::string version;
  std::string model;
  int64_t vocab_size = 0;
  std::optional<double> kv_cache_mb;           // what its KV cache takes, where it tells
  std::vector<int32_t> end;                    // ids that end a generation, where they matter
  std::map<int32_t, bool> forceable;           // by id, as far as ServerPath::learn has asked
  std::vector<ServerOptions::Field> extra;     // fields of the user's
  std::vector<ServerOptions::Field> identity;  // what the version endpoints say; name and text
};

// One sequence to score, or a part of one: then the tokens end with the part, and what stands
// before it is the prompt.
struct ScoreAsk {
  std::span<const int32_t> tokens;
  int32_t prompt_tokens = 1;
  double temperature = 1.0;
  int32_t top = 20;
  bool narrow = false;  // sampling by the two best alone: shows in processed log-probs only
  bool whole = false;   // the whole vocabulary instead of `top` (ServerPath::holds_back)

  std::span<const int32_t> Prompt() const {
    return tokens.first(static_cast<size_t>(prompt_tokens));
  }
  std::span<const int32_t> Continuation() const {
    return tokens.subspan(static_cast<size_t>(prompt_tokens));
  }
};

// One continuation to be written.
struct GenerateAsk {
  std::span<const int32_t> prompt;
  Sampling sampling;
  uint64_t seed = 0;
  int32_t top = 20;
  LogprobSemantics semantics = LogprobSemantics::kRaw;
};

// One way to have given tokens scored.
struct ServerPath {
  TracePath kind = TracePath::kPrefill;
  const ServerRoute* route = nullptr;
  // The call that scores the continuation.
  HttpCall (*score)(const ServerFacts& facts, const ScoreAsk& ask,
                    const std::string& salt) = nullptr;
  // Finds out which of the ids the server can be forced to, for ServerFacts::forceable. A sequence
  // is then scored in parts: the runs of such tokens, and each other token by itself. Null: all.
  Result<> (*learn)(HttpPool& pool, std::span<const int32_t> ids, ServerFacts* facts) = nullptr;

  bool about_prompt = false;   // the whole sequence is sent as the prompt; else tokens are forced
  bool by_token = false;       // a call scores one token; else all of them
  bool logits = false;         // answers hold the logits of the whole vocabulary, and so its size
  bool any_semantics = false;  // the log-probs may be asked for as other than raw
  int32_t tops_lost = 0;       // how many alternatives fewer than asked a list may have
  // What an answer must show besides the tokens' log-probs; null: nothing.
  Result<> (*check)(json::object response, const ScoreAsk& ask) = nullptr;
  // True for an answer that keeps back the token's numbers: the part is then asked again with
  // ScoreAsk::whole, where an end token is forced in its place and the token is found among all.
  // Null: no answer does.
  bool (*holds_back)(const std::string& body) = nullptr;

  std::string_view needs = "";  // what the server must have been started with
  // The path's words in docs/servers.md.
  std::string_view question;
  std::string_view evidence;
};

// Where the meaning of generated log-probs comes from.
enum class GeneratedMeaning : uint8_t {
  kFoundOut,  // they are held against scored ones
  kRaw,       // scored tokens are generated, too
  kAsTold,    // semantics=: a single log-prob cannot show its temperature
};

struct ServerDialect {
  std::string_view name;              // server=NAME
  std::string_view title;             // as its makers write it: "vLLM"
  std::span<const ServerPath> paths;  // the first is the default
  int port = 0;                       // where it listens unless it is told otherwise
  std::string_view owner;             // "owned_by" of its /v1/models

  // Asks who answers, on the server's own endpoints: sets version and identity, and `end`.
  Result<> (*identify)(HttpPool& pool, ServerFacts* facts) = nullptr;
  // Finds out how large the vocabulary is where no page says so; 0: not by this server. Null: there
  // is no way.
  Result<int64_t> (*ask_vocabulary)(HttpPool& pool, const ServerFacts& facts) = nullptr;
  // Megabytes that the KV cache takes, by the text of GET /metrics. Null: it does not tell.
  std::optional<double> (*kv_cache_mb)(std::string_view metrics) = nullptr;
  // The call that has one continuation written.
  HttpCall (*generate)(const ServerFacts& facts, const GenerateAsk& ask,
                       const std::string& salt) = nullptr;
  // The call that gives {"tokens": [ids]} of a text, with what a sequence begins with before it or
  // without. Null: the server has no route for it.
  HttpCall (*tokenize)(const std::string& model, const std::string& text, bool begins) = nullptr;
  // Members of a chat request that POST /tokenize takes as well, so that it renders the prompt that
  // the chat route would. Empty: it renders none.
  std::span<const std::string_view> chat_members = {};
  // Answers are read by the importer's parser (kcc/trace).
  ResponseSequences (*parse)(json::object response, const ResponseContext& context) = nullptr;

  bool tells_vocabulary = false;  // else vocab_size=N must say how large it is
  bool says_semantics = false;    // an answer's entries show what their log-probs mean
  GeneratedMeaning generated = GeneratedMeaning::kFoundOut;
  // What they mean where the server was started as its makers ship it, and asking did not tell.
  LogprobSemantics generated_default = LogprobSemantics::kRaw;
  bool generated_lists = true;  // false: alternatives of generated tokens have no ids
  bool generated_gaps = false;  // true: some generated tokens come without a log-prob
  // Fields of the user's that take tokens out of the distribution that is drawn from.
  std::span<const std::string_view> altering = {};
  std::string_view raw_remedy;  // what makes its log-probs raw
  // The server's words where it cannot be forced to a token, and what is said with them.
  std::string_view stuck = "";
  std::string_view stuck_advice = "";
};

// ServerDialect::tokenize of vLLM and SGLang.
HttpCall TokenizePrompt(const std::string& model, const std::string& text, bool begins);

// The fields of `ask.sampling` and the seed, which has a name of its own on each server. Those that
// limit nothing are sent, too: what is left out, a server fills in from the model's
// generation_config.json. `top_k_off` is the server's word for no limit.
void AddSampling(const GenerateAsk& ask, std::string_view seed, int32_t top_k_off,
                 RequestBody* body);

}  // namespace kcc
