// A server asked about single sequences in memory, each of which fails by itself: for who scores
// what is served, while it is served. The same discovery, probe and parsers as of the kernel that
// writes traces (server_kernel.h); nothing is written to disk.
//
// Not thread-safe: one scorer for each thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/trace/trace.h"

namespace kcc {

struct TokenScorerOptions {
  std::string uri;  // "openai+http://HOST:PORT?server=vllm"
  int32_t top = 20;
  int in_flight_max = 64;
  double call_timeout_s = 2;
  double start_timeout_s = 10;
  int stop_fd = -1;  // readable: what waits fails
};

// A sequence whose tokens from `prompt_tokens` on are to be scored.
struct TokenAsk {
  std::span<const int32_t> tokens;
  int32_t prompt_tokens = 1;
};

struct ScoredToken {
  int32_t id = -1;
  double logprob = 0;                           // NaN: there is none
  std::vector<std::pair<int32_t, double>> top;  // alternatives, the likeliest first
  std::vector<float> logits;  // of the whole vocabulary, from servers that give them
};

struct TokenAnswer {
  bool ok = false;
  std::vector<ScoredToken> tokens;  // one for each token that was asked
  std::string build;                // system_fingerprint or weight_version; empty: not said
  std::string fault;                // where it is not ok
  bool timed_out = false;
};

// A call whose status the caller judges.
struct CallAnswer {
  int status = 0;  // 0: there is no whole reply
  std::string body;
  double seconds = 0;
  int64_t started_at_ms = 0;
  std::string fault;
  bool timed_out = false;
};

// What a scorer knows of its server, once it is open.
struct ScoringFacts {
  std::string server;  // "vllm"
  std::string model;   // what the server calls it
  std::string build;   // what the first answers said of their build; empty: nothing
  int64_t vocab_size = 0;
  EvidenceLevel evidence = EvidenceLevel::kTopK;
  double temperature = 1;  // of the log-probs, which are raw ones
  TracePath path = TracePath::kPrefill;
  bool tokenizes = false;  // texts
  // Members of a chat request that its tokenizer's route takes, so that it renders the prompt as
  // the chat route would; empty: it does not render.
  std::span<const std::string_view> chat_members;
};

// Calls to a server as they are, without asking who it is.
class ServerCaller {
 public:
  static Result<std::unique_ptr<ServerCaller>> Open(const TokenScorerOptions& options);
  ~ServerCaller();
  // With the server's key; none is repeated. All of them take at most `limit_s`.
  std::vector<CallAnswer> Call(std::span<const HttpCall> calls, double limit_s);

 private:
  ServerCaller(std::unique_ptr<HttpPool> pool, std::string key);
  std::unique_ptr<HttpPool> pool_;
  std::string key_;
};

class TokenScorer {
 public:
  // What is wrong with the URI can be told without asking.
  static Result<> Check(const TokenScorerOptions& options);
  // Connects, finds out who answers and asks the probe.
  static Result<std::unique_ptr<TokenScorer>> Open(const TokenScorerOptions& options);
  ~TokenScorer();

  const ScoringFacts& facts() const;

  // As many answers as asks, in their order. All calls together take at most `limit_s`.
  std::vector<TokenAnswer> Score(std::span<const TokenAsk> asks, double limit_s);
  // As ServerCaller does.
  std::vector<CallAnswer> Call(std::span<const HttpCall> calls, double limit_s);

  // What the log-probs of tokens that the server generates mean. Asked for once: the lists of first
  // tokens at two temperatures are compared, so that no difference between the kernels that read
  // prompts and those that write answers plays a part. Of a model whose
  // best tokens are all equally likely it does not show; then its kind's default counts.
  Result<LogprobSemantics> GeneratedSemantics(double limit_s);

 private:
  struct State;
  explicit TokenScorer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The call that gives the ids of a text (`begins`: with what a sequence begins with before it), or
// of a conversation: members of `facts.chat_members` as JSON. ReadTokenized reads the answer.
// Preconditions: facts.tokenizes; chat_members is not empty.
HttpCall TokenizeTextCall(const ScoringFacts& facts, const std::string& text, bool begins);
HttpCall TokenizeChatCall(const ScoringFacts& facts,
                          std::span<const std::pair<std::string, std::string>> members);
Result<std::vector<int32_t>> ReadTokenized(const std::string& body);

}  // namespace kcc
