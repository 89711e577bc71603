#include "kcc/kernel/server_kernel.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/kernel/exec_protocol.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/secret.h"
#include "kcc/kernel/server_connection.h"
#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/server_table.h"
#include "kcc/kernel/server_trace.h"

namespace kcc {
namespace {

class ServerKernel final : public Kernel {
 public:
  explicit ServerKernel(const ServerOptions& options) : server_(options) {}

  const KernelInfo& info() const override { return info_; }

  // What these three fail with may quote the server, never the key.
  Result<> Start() { return KeepKey(Discover()); }
  Result<> Score(std::span<const KernelRequest> batch, const std::string& directory) override {
    return KeepKey(ScoreBatch(batch, directory));
  }
  Result<> Generate(std::span<const KernelRequest> batch, const Sampling& sampling,
                    const std::string& directory) override {
    return KeepKey(GenerateBatch(batch, sampling, directory));
  }

 private:
  const ServerOptions& options() const { return server_.options(); }
  const ServerFacts& facts() const { return server_.facts(); }
  Result<> KeepKey(Result<> done) const {
    if (done.has_value()) return done;
    return WithoutSecret(done.error(), options().http.api_key);
  }
  Result<> Discover();
  Result<> ScoreBatch(std::span<const KernelRequest> batch, const std::string& directory);
  Result<> GenerateBatch(std::span<const KernelRequest> batch, const Sampling& sampling,
                         const std::string& directory);
  void Describe();

  ServerConnection server_;
  KernelInfo info_;
  std::optional<LogprobSemantics> generated_semantics_;
  bool has_generated_ = false;  // an answer to a request of a caller
};

void ServerKernel::Describe() {
  ServerFacts named = facts();
  if (!server_.build().empty()) named.identity.push_back({"build", server_.build()});
  info_.fingerprint = ServerFingerprint(named, options());
  info_.model_digest = options().model_digest;
  info_.vocab_size = facts().vocab_size;
  info_.evidence = facts().path->logits ? EvidenceLevel::kLogits
                   : options().top > 0  ? EvidenceLevel::kTopK
                                        : EvidenceLevel::kSampledToken;
  info_.semantics = options().semantics;
  info_.path = facts().path->kind;
  info_.temperature = options().temperature;
  info_.generates = true;
  info_.declares = {{"engine", std::string(facts().server->name)}};
  info_.options = {{"server", std::string(facts().server->name), ""},
                   {"path", std::string(Name(facts().path->kind)), "operator"},
                   {"in_flight", std::to_string(options().http.in_flight_max), "batch"}};
}

// Described after the probe, whose answers name the build that the fingerprint holds.
Result<> ServerKernel::Discover() {
  KCC_TRY_VOID(server_.Open());
  Describe();
  return {};
}

Result<> ServerKernel::ScoreBatch(std::span<const KernelRequest> batch,
                                  const std::string& directory) {
  std::vector<ScoreAsk> asks;
  for (const KernelRequest& request : batch) {
    ScoreAsk ask;
    ask.tokens = request.tokens;
    ask.prompt_tokens = request.prompt_tokens;
    ask.temperature = options().temperature;
    ask.top = options().top;
    asks.push_back(ask);
  }
  const auto name = [&](size_t i) { return "request '" + batch[i].request.id + "'"; };
  KCC_TRY(const std::vector<ScoreAnswer> answers, server_.AskAll(asks, name));
  ServerTrace trace;
  trace.info = TraceInfoOf(info_);
  trace.kv_cache_mb = facts().kv_cache_mb;
  trace.top = info_.evidence == EvidenceLevel::kTopK ? options().top : 0;
  trace.mask_missing = options().mask_missing;
  return WriteServerTrace(trace, batch, answers, directory);
}

Result<> ServerKernel::GenerateBatch(std::span<const KernelRequest> batch, const Sampling& sampling,
                                     const std::string& directory) {
  const bool lists = facts().server->generated_lists && options().top > 0;
  if (!generated_semantics_) {
    auto found = server_.GeneratedSemantics();
    if (!found.has_value()) return Within("what generated log-probs mean", found.error());
    generated_semantics_ = *found;
  }
  std::vector<GenerateAsk> asks(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto length = std::clamp<int64_t>(batch[i].prompt_tokens, 0,
                                            static_cast<int64_t>(batch[i].tokens.size()));
    ScoreAsk prompt;
    prompt.tokens = std::span(batch[i].tokens).first(static_cast<size_t>(length));
    prompt.prompt_tokens = batch[i].prompt_tokens;
    auto askable = CheckAskable(facts(), prompt);
    if (!askable.has_value()) {
      return Within("request '" + batch[i].request.id + "'", askable.error());
    }
    asks[i] = {prompt.tokens, sampling, RequestSeed(sampling.seed, batch[i].request.id),
               options().top, *generated_semantics_};
  }
  std::vector<ScoreAnswer> answers(batch.size());
  const auto make = [&](size_t i) {
    answers[i].started_at_ms = options().clock->NowMs();  // of the last attempt, as its seconds are
    return facts().server->generate(facts(), asks[i], server_.NextSalt());
  };
  const auto take = [&](size_t i, const HttpReply& reply) -> Result<> {
    auto answer = ReadGenerated(facts(), asks[i], reply.body);
    if (!answer.has_value()) {
      return Within("request '" + batch[i].request.id + "'", answer.error());
    }
    KCC_TRY_VOID(server_.CheckSameBuild(answer->fingerprint));
    answer->started_at_ms = answers[i].started_at_ms;
    answer->seconds = reply.seconds;
    answers[i] = std::move(*answer);
    has_generated_ = true;
    return {};
  };
  // A request that the server gave up on is a fact about the server, unless the server has answered
  // none yet: then it is most likely asked wrongly, and the first cause is the run's.
  size_t failed = 0;
  std::optional<Error> first;
  const auto give_up = [&](size_t i, bool timed_out, const Error& why) -> Result<> {
    answers[i].failed = true;
    answers[i].timed_out = timed_out;
    if (!first) first = Within("request '" + batch[i].request.id + "'", why);
    if (++failed == batch.size() && !has_generated_) return *first;
    return {};
  };
  KCC_TRY_VOID(server_.pool().Run(batch.size(), make, take, give_up));
  ServerTrace trace;
  trace.info = GeneratedTraceInfo(info_, *generated_semantics_, sampling, lists);
  trace.kv_cache_mb = facts().kv_cache_mb;
  for (const ServerOptions::Field& field : facts().extra) {
    const auto& altering = facts().server->altering;
    if (std::find(altering.begin(), altering.end(), field.name) != altering.end()) {
      trace.info.sampling_altered = true;
    }
  }
  trace.top = lists ? options().top : 0;
  trace.mask_missing = options().mask_missing || facts().server->generated_gaps;
  return WriteServerTrace(trace, batch, answers, directory);
}

}  // namespace

Result<std::unique_ptr<Kernel>> OpenServerKernel(const ServerOptions& options) {
  auto kernel = std::make_unique<ServerKernel>(options);
  KCC_TRY_VOID(kernel->Start());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

Result<std::vector<std::string_view>> AnsweringServers(const KernelUri& uri,
                                                       const KernelOpenOptions& open) {
  KCC_TRY(HttpOptions http, ReadHttpOptions(uri, open));
  http.retries_max = 0;
  const std::string key = http.api_key;
  KCC_TRY(const std::unique_ptr<HttpPool> pool, HttpPool::Open(std::move(http)));
  const auto guessed = GuessServer(*pool);
  if (!guessed.has_value()) return WithoutSecret(guessed.error(), key);
  std::vector<std::string_view> names;
  for (const ServerDialect* server : *guessed) names.push_back(server->name);
  return names;
}

std::string HttpLibraryVersion() { return HttpPool::LibraryVersion(); }

KernelScheme ServerScheme(bool secure) {
  const std::string name = secure ? "openai+https" : "openai+http";
  const auto open = [](const KernelUri& uri,
                       const KernelOpenOptions& how) -> Result<std::unique_ptr<Kernel>> {
    KCC_TRY(const ServerOptions options, ReadServerOptions(uri, how));
    auto kernel = OpenServerKernel(options);
    if (!kernel.has_value()) return std::move(kernel.error()).At(Place{uri.text});
    return kernel;
  };
  const auto check = [](const KernelUri& uri) -> Result<> {
    KCC_TRY_VOID(ReadServerOptions(uri, {}));
    return {};
  };
  return {name, name + "://HOST:PORT?server=" + ServerChoices(), open, check};
}

}  // namespace kcc
