#include "kcc/kernel/server_kernel.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/kernel/exec_protocol.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/secret.h"
#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/server_probe.h"
#include "kcc/kernel/server_score.h"
#include "kcc/kernel/server_table.h"
#include "kcc/kernel/server_trace.h"

namespace kcc {
namespace {

constexpr int32_t kProbeTop = 5;

// Caches of earlier runs must not be met, so the salt is new in each.
std::string RandomSalt() {
  // Not std::random_device: libstdc++'s wants arc4random, which is new in glibc 2.36.
  std::array<uint32_t, 2> words{};
  if (::getentropy(words.data(), sizeof words) != 0) {
    words[0] = static_cast<uint32_t>(::getpid());  // Linux before 3.17: at least not the last run's
  }
  return "kcc-" + std::to_string(words[0]) + "-" + std::to_string(words[1]);
}

// One call: which sequence it is about, and what it asks of it.
struct CallSite {
  size_t sequence = 0;
  ScoreAsk part;
};

// Everything runs on the caller's thread: the pool makes calls and takes replies inside Run, so the
// members need no lock although many calls are under way at once.
//
// A batch goes through three lists. The asks are its sequences; a sequence may need several calls
// (SplitAsk), so the sites are (sequence, part) in order; the parts are their answers, at the
// place of their site whatever order they came in. Example, two sequences of which the first takes
// two calls:
//
//     sites   (0, 0)  (0, 1)  (1, 0)
//     parts   tokens  tokens  tokens    joined to the answers of sequences 0 and 1
//
// One build answers all of it, from the first call of the probe on (CheckSameBuild): behind a load
// balancer half of a trace could otherwise come from another version.
class ServerKernel final : public Kernel {
 public:
  ServerKernel(ServerOptions options, std::unique_ptr<HttpPool> pool)
      : options_(std::move(options)), pool_(std::move(pool)) {
    if (options_.salt.empty()) options_.salt = RandomSalt();
  }

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
  Result<> KeepKey(Result<> done) const {
    if (done.has_value()) return done;
    return WithoutSecret(done.error(), options_.http.api_key);
  }
  Result<> Discover();
  Result<> ScoreBatch(std::span<const KernelRequest> batch, const std::string& directory);
  Result<> GenerateBatch(std::span<const KernelRequest> batch, const Sampling& sampling,
                         const std::string& directory);
  Result<> Probe();
  // Says that it was the probe, which nobody asked for, and how to do without it.
  Error ProbeError(const Error& error) const;
  void Describe();
  // The answers to all sequences; `name` says what a sequence is called in messages.
  Result<std::vector<ScoreAnswer>> AskAll(std::span<const ScoreAsk> asks,
                                          const std::function<std::string(size_t)>& name);
  Result<> AskSites(const std::function<std::string(size_t)>& name, std::vector<CallSite>* sites,
                    std::vector<ScoreAnswer>* parts);
  // Asks about the ids that were not met before.
  Result<> Learn(std::span<const ScoreAsk> asks);
  Result<> CheckSameBuild(const std::string& fingerprint);
  Result<ProbeLists> ProbeOnce(std::span<const int32_t> tokens, double temperature, bool narrow);
  Result<LogprobSemantics> GeneratedSemantics();
  std::string NextSalt() { return options_.salt + "-" + std::to_string(++salts_); }

  ServerOptions options_;
  std::unique_ptr<HttpPool> pool_;
  ServerFacts facts_;
  KernelInfo info_;
  std::string build_;  // what the first answer said of its build
  std::optional<LogprobSemantics> generated_semantics_;
  uint64_t salts_ = 0;
  bool has_generated_ = false;  // an answer to a request of a caller
};

Error Within(const std::string& where, const Error& error) {
  return Error(error.code(), where + ": " + error.message(), error.place());
}

Result<> ServerKernel::CheckSameBuild(const std::string& fingerprint) {
  if (fingerprint.empty()) return {};
  if (build_.empty()) build_ = fingerprint;
  if (build_ == fingerprint) return {};
  return BrokenEvidenceError("this answer comes from '" + fingerprint + "', earlier ones from '" +
                             build_ +
                             "': another build or other weights answer at this address; score each "
                             "on its own");
}

// Asks for every site's part; those whose numbers are kept back are asked again.
Result<> ServerKernel::AskSites(const std::function<std::string(size_t)>& name,
                                std::vector<CallSite>* sites, std::vector<ScoreAnswer>* parts) {
  std::vector<size_t> calls(sites->size());
  std::iota(calls.begin(), calls.end(), size_t{0});
  std::vector<size_t> again;
  // Made again for each repetition, so that a repeated call has a salt of its own, too: it must not
  // meet what the server kept of the attempt before.
  const auto make = [&](size_t i) {
    return facts_.path->score(facts_, (*sites)[calls[i]].part, NextSalt());
  };
  const auto take = [&](size_t i, const HttpReply& reply) -> Result<> {
    CallSite& site = (*sites)[calls[i]];
    const auto holds_back = facts_.path->holds_back;
    if (holds_back != nullptr && !site.part.whole && !facts_.end.empty() &&
        holds_back(reply.body)) {
      site.part.whole = true;
      again.push_back(calls[i]);
      return {};
    }
    auto answer = ReadScore(facts_, site.part, reply.body);
    if (!answer.has_value()) return Within(name(site.sequence), answer.error());
    auto same = CheckSameBuild(answer->fingerprint);
    if (!same.has_value()) return Within(name(site.sequence), same.error());
    (*parts)[calls[i]] = std::move(*answer);
    return {};
  };
  // At most two rounds: a site that was asked for its whole is not held back again.
  while (!calls.empty()) {
    auto ran = pool_->Run(calls.size(), make, take);
    const std::string_view stuck = facts_.server->stuck;
    if (!ran.has_value() && !stuck.empty() &&
        ran.error().message().find(stuck) != std::string::npos) {
      return Error(ran.error().code(),
                   ran.error().message() + "; " + std::string(facts_.server->stuck_advice));
    }
    if (!ran.has_value()) return std::move(ran.error());
    calls = std::exchange(again, {});
  }
  return {};
}

Result<> ServerKernel::Learn(std::span<const ScoreAsk> asks) {
  if (facts_.path->learn == nullptr) return {};
  std::set<int32_t> fresh;
  for (const ScoreAsk& ask : asks) {
    for (const int32_t id : ask.Continuation()) {
      if (!facts_.forceable.contains(id)) fresh.insert(id);
    }
  }
  const std::vector<int32_t> ids(fresh.begin(), fresh.end());
  return facts_.path->learn(*pool_, ids, &facts_);
}

Result<std::vector<ScoreAnswer>> ServerKernel::AskAll(
    std::span<const ScoreAsk> asks, const std::function<std::string(size_t)>& name) {
  for (size_t i = 0; i < asks.size(); ++i) {
    auto askable = CheckAskable(facts_, asks[i]);
    if (!askable.has_value()) return Within(name(i), askable.error());
  }
  KCC_TRY_VOID(Learn(asks));
  std::vector<CallSite> sites;
  for (size_t i = 0; i < asks.size(); ++i) {
    for (const ScoreAsk& part : SplitAsk(facts_, asks[i])) sites.push_back({i, part});
  }
  std::vector<ScoreAnswer> parts(sites.size());
  KCC_TRY_VOID(AskSites(name, &sites, &parts));
  std::vector<ScoreAnswer> answers(asks.size());
  for (size_t call = 0; call < sites.size(); ++call) {
    auto& tokens = answers[sites[call].sequence].tokens;
    std::move(parts[call].tokens.begin(), parts[call].tokens.end(), std::back_inserter(tokens));
  }
  return answers;
}

Result<ProbeLists> ServerKernel::ProbeOnce(std::span<const int32_t> tokens, double temperature,
                                           bool narrow) {
  ScoreAsk ask;
  ask.tokens = tokens;
  ask.prompt_tokens = static_cast<int32_t>(std::max<size_t>(1, tokens.size() / 2));
  ask.temperature = temperature;
  ask.top = std::max(kProbeTop, std::min(options_.top, 20));
  ask.narrow = narrow;
  KCC_TRY(const std::vector<ScoreAnswer> answers,
          AskAll(std::span(&ask, 1), [](size_t) { return std::string("its sequence"); }));
  // Some servers say their vocabulary's size nowhere but by the length of their logits.
  if (facts_.vocab_size == 0) {
    facts_.vocab_size = static_cast<int64_t>(answers[0].tokens[0].logits.size());
  }
  ProbeLists lists;
  for (const ImportedToken& token : answers[0].tokens) lists.push_back(ProbeList(token));
  return lists;
}

Result<> ServerKernel::Probe() {
  std::vector<int32_t> tokens = options_.probe_tokens;
  if (tokens.empty()) {
    // From the middle of the vocabulary, where ordinary tokens are.
    const int64_t size = facts_.vocab_size > 0 ? facts_.vocab_size : 64;
    for (const int64_t divisor : {2, 3, 5, 7, 4, 6}) {
      tokens.push_back(static_cast<int32_t>(size / divisor));
    }
  }
  ProbeAnswers answers;
  KCC_TRY(answers.plain, ProbeOnce(tokens, 1, false));
  if (!options_.probe) return {};  // asked for the vocabulary alone
  KCC_TRY(answers.heated, ProbeOnce(tokens, kProbeTemperature, true));
  // The numbers at a position follow from the tokens before it. So another last token must leave
  // those at the last position as they were; where it does not, the server's numbers are one place
  // off.
  tokens.back() = tokens.back() > 0 ? tokens.back() - 1 : tokens.back() + 1;
  KCC_TRY(answers.other, ProbeOnce(tokens, 1, false));
  KCC_TRY(const LogprobSemantics found, FindSemantics(answers));
  return CheckSemantics(facts_.server->raw_remedy, options_.semantics, found);
}

Error ServerKernel::ProbeError(const Error& error) const {
  if (error.message() == InterruptedError().message()) return error;
  std::string message = "the probe, which asks a few tokens before the first request: ";
  message += error.message();
  if (options_.probe && facts_.vocab_size > 0) {
    message +=
        "; probe=ID,ID,ID asks about other tokens, and probe=off skips it: then nobody checks what "
        "the log-probs mean";
  }
  return Error(error.code(), std::move(message), error.place());
}

void ServerKernel::Describe() {
  if (!build_.empty()) facts_.identity.push_back({"build", build_});
  info_.fingerprint = ServerFingerprint(facts_, options_);
  info_.model_digest = options_.model_digest;
  info_.vocab_size = facts_.vocab_size;
  info_.evidence = facts_.path->logits ? EvidenceLevel::kLogits
                   : options_.top > 0  ? EvidenceLevel::kTopK
                                       : EvidenceLevel::kSampledToken;
  info_.semantics = options_.semantics;
  info_.path = facts_.path->kind;
  info_.temperature = options_.temperature;
  info_.generates = true;
  info_.declares = {{"engine", std::string(facts_.server->name)}};
  info_.options = {{"server", std::string(facts_.server->name), ""},
                   {"path", std::string(Name(facts_.path->kind)), "operator"},
                   {"in_flight", std::to_string(options_.http.in_flight_max), "batch"}};
}

Result<> ServerKernel::Discover() {
  pool_->SetRunLimit(options_.start_timeout_s);
  KCC_TRY(facts_, DiscoverServer(*pool_, options_));
  if (options_.probe || facts_.vocab_size == 0) {
    auto probed = Probe();
    if (!probed.has_value()) return ProbeError(probed.error());
  }
  if (facts_.vocab_size < 1) return BrokenEvidenceError("the server's logits are empty");
  // After the probe, whose answers name the build that the fingerprint holds.
  Describe();
  pool_->SetRunLimit(options_.http.batch_timeout_s);
  return {};
}

Result<> ServerKernel::ScoreBatch(std::span<const KernelRequest> batch,
                                  const std::string& directory) {
  std::vector<ScoreAsk> asks;
  for (const KernelRequest& request : batch) {
    ScoreAsk ask;
    ask.tokens = request.tokens;
    ask.prompt_tokens = request.prompt_tokens;
    ask.temperature = options_.temperature;
    ask.top = options_.top;
    asks.push_back(ask);
  }
  const auto name = [&](size_t i) { return "request '" + batch[i].request.id + "'"; };
  KCC_TRY(const std::vector<ScoreAnswer> answers, AskAll(asks, name));
  ServerTrace trace;
  trace.info = TraceInfoOf(info_);
  trace.kv_cache_mb = facts_.kv_cache_mb;
  trace.top = info_.evidence == EvidenceLevel::kTopK ? options_.top : 0;
  trace.mask_missing = options_.mask_missing;
  return WriteServerTrace(trace, batch, answers, directory);
}

// The tokens a server writes come with log-probs of its own choice; unless the row says what they
// mean, they are held against the raw ones of the scoring path.
Result<LogprobSemantics> ServerKernel::GeneratedSemantics() {
  if (facts_.server->generated == GeneratedMeaning::kRaw) return LogprobSemantics::kRaw;
  if (facts_.server->generated == GeneratedMeaning::kAsTold) return options_.semantics;
  GenerateAsk ask;
  const std::vector<int32_t> prompt = {static_cast<int32_t>(facts_.vocab_size / 2),
                                       static_cast<int32_t>(facts_.vocab_size / 3)};
  ask.prompt = prompt;
  ask.sampling.temperature = kProbeTemperature;
  ask.sampling.output_tokens_max = 2;
  ask.top = std::max(kProbeTop, std::min(options_.top, 20));
  KCC_TRY(const HttpReply reply, pool_->Ask(facts_.server->generate(facts_, ask, NextSalt())));
  if (reply.status != 200) {
    return IoError("the server does not generate: status " + std::to_string(reply.status));
  }
  KCC_TRY(const ScoreAnswer generated, ReadGenerated(facts_, ask, reply.body));
  std::vector<int32_t> tokens = prompt;
  for (const ImportedToken& token : generated.tokens) {
    tokens.push_back(static_cast<int32_t>(token.token));
  }
  ScoreAsk score;
  score.tokens = tokens;
  score.prompt_tokens = static_cast<int32_t>(prompt.size());
  score.top = ask.top;
  KCC_TRY(const std::vector<ScoreAnswer> scored,
          AskAll(std::span(&score, 1), [](size_t) { return std::string("the probe"); }));
  ProbeAnswers answers;
  for (size_t i = 0; i < generated.tokens.size(); ++i) {
    answers.plain.push_back(ProbeList(scored[0].tokens[i]));
    answers.heated.push_back(ProbeList(generated.tokens[i]));
  }
  answers.other = answers.plain;
  return FindSemantics(answers);
}

Result<> ServerKernel::GenerateBatch(std::span<const KernelRequest> batch, const Sampling& sampling,
                                     const std::string& directory) {
  const bool lists = facts_.server->generated_lists && options_.top > 0;
  if (!generated_semantics_) {
    auto found = GeneratedSemantics();
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
    auto askable = CheckAskable(facts_, prompt);
    if (!askable.has_value()) {
      return Within("request '" + batch[i].request.id + "'", askable.error());
    }
    asks[i] = {prompt.tokens, sampling, RequestSeed(sampling.seed, batch[i].request.id),
               options_.top, *generated_semantics_};
  }
  std::vector<ScoreAnswer> answers(batch.size());
  const auto make = [&](size_t i) {
    answers[i].started_at_ms = options_.clock->NowMs();  // of the last attempt, as its seconds are
    return facts_.server->generate(facts_, asks[i], NextSalt());
  };
  const auto take = [&](size_t i, const HttpReply& reply) -> Result<> {
    auto answer = ReadGenerated(facts_, asks[i], reply.body);
    if (!answer.has_value()) {
      return Within("request '" + batch[i].request.id + "'", answer.error());
    }
    KCC_TRY_VOID(CheckSameBuild(answer->fingerprint));
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
  KCC_TRY_VOID(pool_->Run(batch.size(), make, take, give_up));
  ServerTrace trace;
  trace.info = GeneratedTraceInfo(info_, *generated_semantics_, sampling, lists);
  trace.kv_cache_mb = facts_.kv_cache_mb;
  for (const ServerOptions::Field& field : facts_.extra) {
    const auto& altering = facts_.server->altering;
    if (std::find(altering.begin(), altering.end(), field.name) != altering.end()) {
      trace.info.sampling_altered = true;
    }
  }
  trace.top = lists ? options_.top : 0;
  trace.mask_missing = options_.mask_missing || facts_.server->generated_gaps;
  return WriteServerTrace(trace, batch, answers, directory);
}

}  // namespace

Result<std::unique_ptr<Kernel>> OpenServerKernel(const ServerOptions& options) {
  KCC_TRY(std::unique_ptr<HttpPool> pool, HttpPool::Open(options.http));
  auto kernel = std::make_unique<ServerKernel>(options, std::move(pool));
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
