#include "kcc/kernel/token_scorer.h"

#include <algorithm>
#include <utility>

#include "kcc/base/clock.h"
#include "kcc/base/json_writer.h"
#include "kcc/kernel/secret.h"
#include "kcc/kernel/server_connection.h"
#include "kcc/kernel/server_options.h"
#include "kcc/kernel/server_table.h"
#include "kcc/kernel/uri.h"

namespace kcc {
namespace {

constexpr int32_t kSemanticsTop = 20;

Result<ServerOptions> ReadOptions(const TokenScorerOptions& options) {
  KCC_TRY(const KernelUri uri, ParseKernelUri(options.uri));
  if (uri.scheme != "openai+http" && uri.scheme != "openai+https") {
    return InvalidError("a kernel behind a gateway is a server, 'openai+http://HOST:PORT?server=…'",
                        Place{uri.text});
  }
  KernelOpenOptions open;
  open.start_timeout_s = options.start_timeout_s;
  open.batch_timeout_s = options.call_timeout_s;
  open.stop_fd = options.stop_fd;
  KCC_TRY(ServerOptions read, ReadServerOptions(uri, open));
  if (read.semantics != LogprobSemantics::kRaw || read.temperature != 1) {
    return InvalidError(
        "what is served is scored with raw log-probs; leave semantics= and "
        "temperature= out",
        Place{uri.text});
  }
  read.top = options.top;
  read.http.in_flight_max = options.in_flight_max;
  read.http.timeout_s = options.call_timeout_s;
  // What does not answer is asked about the next record instead.
  read.http.retries_max = 0;
  return read;
}

ScoredToken TokenOf(ImportedToken token, int32_t top) {
  ScoredToken scored;
  scored.id = static_cast<int32_t>(token.token);
  scored.logprob = token.logprob;
  scored.logits = std::move(token.logits);
  SortTop(&token.top);
  for (const TopEntry& entry : token.top) {
    if (static_cast<int32_t>(scored.top.size()) == top) break;
    scored.top.emplace_back(entry.id, entry.logprob);
  }
  return scored;
}

// All of the best tokens are about equally likely, so that a temperature does not show.
bool AreFlat(const ProbeLists& lists) {
  constexpr double kSpread = 0.05;
  return std::all_of(lists.begin(), lists.end(), [](const std::vector<TopEntry>& list) {
    return list.empty() || list.front().logprob - list.back().logprob < kSpread;
  });
}

std::vector<CallAnswer> CallAll(HttpPool& pool, std::string_view key,
                                std::span<const HttpCall> calls, double limit_s) {
  std::vector<CallAnswer> answers(calls.size());
  pool.SetRunLimit(limit_s);
  const auto ran = pool.RunForAnyStatus(
      calls.size(),
      [&](size_t i) {
        answers[i].started_at_ms = TheSystemClock().NowMs();
        return calls[i];
      },
      [&](size_t i, HttpReply reply) -> Result<> {
        answers[i].status = reply.status;
        answers[i].seconds = reply.seconds;
        answers[i].body = std::move(reply.body);
        return {};
      },
      [&](size_t i, bool timed_out, const Error& why) -> Result<> {
        answers[i].fault = WithoutSecret(why.message(), key);
        answers[i].timed_out = timed_out;
        return {};
      });
  if (ran.has_value()) return answers;
  for (CallAnswer& answer : answers) {
    if (answer.status != 0 || !answer.fault.empty()) continue;
    answer.fault = WithoutSecret(ran.error().message(), key);
    answer.timed_out = true;
  }
  return answers;
}

}  // namespace

ServerCaller::ServerCaller(std::unique_ptr<HttpPool> pool, std::string key)
    : pool_(std::move(pool)), key_(std::move(key)) {}
ServerCaller::~ServerCaller() = default;

Result<std::unique_ptr<ServerCaller>> ServerCaller::Open(const TokenScorerOptions& options) {
  KCC_TRY(const ServerOptions read, ReadOptions(options));
  KCC_TRY(std::unique_ptr<HttpPool> pool, HttpPool::Open(read.http));
  return std::unique_ptr<ServerCaller>(new ServerCaller(std::move(pool), read.http.api_key));
}

std::vector<CallAnswer> ServerCaller::Call(std::span<const HttpCall> calls, double limit_s) {
  return CallAll(*pool_, key_, calls, limit_s);
}

struct TokenScorer::State {
  explicit State(ServerOptions options) : server(std::move(options)) {}

  std::string WithoutKey(std::string_view words) const {
    return WithoutSecret(words, server.options().http.api_key);
  }
  // The list of the first token that is written after a prompt.
  Result<std::vector<TopEntry>> FirstList(std::span<const int32_t> prompt, double temperature);

  ServerConnection server;
  ScoringFacts facts;
  std::optional<LogprobSemantics> generated;
};

TokenScorer::TokenScorer(std::unique_ptr<State> state) : state_(std::move(state)) {}
TokenScorer::~TokenScorer() = default;
const ScoringFacts& TokenScorer::facts() const { return state_->facts; }

Result<> TokenScorer::Check(const TokenScorerOptions& options) {
  KCC_TRY_VOID(ReadOptions(options));
  return {};
}

Result<std::unique_ptr<TokenScorer>> TokenScorer::Open(const TokenScorerOptions& options) {
  KCC_TRY(ServerOptions read, ReadOptions(options));
  auto state = std::make_unique<State>(std::move(read));
  ServerConnection& server = state->server;
  const auto opened = server.Open();
  if (!opened.has_value()) {
    return WithoutSecret(opened.error(), server.options().http.api_key);
  }
  const ServerFacts& found = server.facts();
  ScoringFacts& facts = state->facts;
  facts.server = found.server->name;
  facts.model = found.model;
  facts.build = server.build();
  facts.vocab_size = found.vocab_size;
  facts.evidence = found.path->logits ? EvidenceLevel::kLogits
                   : options.top > 0  ? EvidenceLevel::kTopK
                                      : EvidenceLevel::kSampledToken;
  facts.path = found.path->kind;
  facts.tokenizes = found.server->tokenize != nullptr;
  facts.chat_members = found.server->chat_members;
  return std::unique_ptr<TokenScorer>(new TokenScorer(std::move(state)));
}

std::vector<TokenAnswer> TokenScorer::Score(std::span<const TokenAsk> asks, double limit_s) {
  State& state = *state_;
  const int32_t top = state.server.options().top;
  std::vector<ScoreAsk> questions(asks.size());
  for (size_t i = 0; i < asks.size(); ++i) {
    questions[i].tokens = asks[i].tokens;
    questions[i].prompt_tokens = asks[i].prompt_tokens;
    questions[i].top = top;
  }
  state.server.pool().SetRunLimit(limit_s);
  std::vector<AskOutcome> outcomes = state.server.AskEach(questions);
  std::vector<TokenAnswer> answers(asks.size());
  for (size_t i = 0; i < asks.size(); ++i) {
    TokenAnswer& answer = answers[i];
    answer.ok = outcomes[i].answer.has_value();
    answer.fault = state.WithoutKey(outcomes[i].fault);
    answer.timed_out = outcomes[i].timed_out;
    if (!answer.ok) continue;
    answer.build = std::move(outcomes[i].answer->fingerprint);
    for (ImportedToken& token : outcomes[i].answer->tokens) {
      answer.tokens.push_back(TokenOf(std::move(token), top));
    }
  }
  return answers;
}

std::vector<CallAnswer> TokenScorer::Call(std::span<const HttpCall> calls, double limit_s) {
  ServerConnection& server = state_->server;
  return CallAll(server.pool(), server.options().http.api_key, calls, limit_s);
}

Result<std::vector<TopEntry>> TokenScorer::State::FirstList(std::span<const int32_t> prompt,
                                                            double temperature) {
  const ServerFacts& found = server.facts();
  GenerateAsk ask;
  ask.prompt = prompt;
  ask.sampling.temperature = temperature;
  ask.sampling.top_k = temperature == 1 ? 0 : 2;  // shows whether lists are cut by sampling
  ask.sampling.output_tokens_max = 1;
  ask.top = std::max(2, std::min(server.options().top, kSemanticsTop));
  KCC_TRY(const HttpReply reply,
          server.pool().Ask(found.server->generate(found, ask, server.NextSalt())));
  if (reply.status != 200) {
    return IoError("the server does not generate: status " + std::to_string(reply.status));
  }
  // Where an answer's entries say themselves what they mean, that is the answer to the question.
  KCC_TRY(const ScoreAnswer answer, ReadGenerated(found, ask, reply.body));
  if (answer.tokens.empty()) return BrokenEvidenceError("the server writes no token");
  return ProbeList(answer.tokens[0]);
}

Result<LogprobSemantics> TokenScorer::GeneratedSemantics(double limit_s) {
  State& state = *state_;
  if (state.generated) return *state.generated;
  const ServerDialect& row = *state.server.facts().server;
  if (row.generated == GeneratedMeaning::kRaw || !row.generated_lists) {
    return *(state.generated = row.generated_default);
  }
  state.server.pool().SetRunLimit(limit_s);
  const int64_t size = state.facts.vocab_size;
  ProbeAnswers answers;
  for (const int64_t divisor : {2, 3, 5, 7}) {
    const std::vector<int32_t> prompt = {static_cast<int32_t>(size / divisor),
                                         static_cast<int32_t>(size / (divisor + 1))};
    KCC_TRY(auto plain, state.FirstList(prompt, 1));
    KCC_TRY(auto heated, state.FirstList(prompt, kProbeTemperature));
    answers.plain.push_back(std::move(plain));
    answers.heated.push_back(std::move(heated));
  }
  answers.other = answers.plain;
  if (AreFlat(answers.plain)) return *(state.generated = row.generated_default);
  KCC_TRY(state.generated, FindSemantics(answers));
  return *state.generated;
}

HttpCall TokenizeTextCall(const ScoringFacts& facts, const std::string& text, bool begins) {
  return FindServer(facts.server)->tokenize(facts.model, text, begins);
}

HttpCall TokenizeChatCall(const ScoringFacts& facts,
                          std::span<const std::pair<std::string, std::string>> members) {
  JsonWriter body(JsonWriter::Style::kCompact);
  body.BeginObject().Field("model", facts.model);
  for (const auto& [name, value] : members) body.Key(name).Raw(value);
  return {"/tokenize", body.EndObject().Take()};
}

Result<std::vector<int32_t>> ReadTokenized(const std::string& body) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, body));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS || !JsonList(JsonMember(object, "tokens"))) {
    return BrokenEvidenceError("the tokenizer gives no list of ids");
  }
  std::vector<int32_t> ids;
  const auto tokens = JsonList(JsonMember(object, "tokens"));
  for (const json::element item : *tokens) {
    KCC_TRY(const int32_t id, JsonTokenId(item, "an entry of 'tokens'"));
    ids.push_back(id);
  }
  return ids;
}

}  // namespace kcc
