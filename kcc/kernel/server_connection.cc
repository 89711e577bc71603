#include "kcc/kernel/server_connection.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/uri.h"

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

}  // namespace

Error Within(const std::string& where, const Error& error) {
  return Error(error.code(), where + ": " + error.message(), error.place());
}

ServerConnection::ServerConnection(ServerOptions options) : options_(std::move(options)) {
  if (options_.salt.empty()) options_.salt = RandomSalt();
}

Result<> ServerConnection::Open() {
  KCC_TRY(pool_, HttpPool::Open(options_.http));
  pool_->SetRunLimit(options_.start_timeout_s);
  KCC_TRY(facts_, DiscoverServer(*pool_, options_));
  if (options_.probe || facts_.vocab_size == 0) {
    auto probed = Probe();
    if (!probed.has_value()) return ProbeError(probed.error());
  }
  if (facts_.vocab_size < 1) return BrokenEvidenceError("the server's logits are empty");
  pool_->SetRunLimit(options_.http.batch_timeout_s);
  return {};
}

Result<> ServerConnection::CheckSameBuild(const std::string& fingerprint) {
  if (fingerprint.empty()) return {};
  if (build_.empty()) build_ = fingerprint;
  if (build_ == fingerprint) return {};
  return BrokenEvidenceError("this answer comes from '" + fingerprint + "', earlier ones from '" +
                             build_ +
                             "': another build or other weights answer at this address; score each "
                             "on its own");
}

// Asks for every site's part; those whose numbers are kept back are asked again.
Result<> ServerConnection::AskSites(const std::function<std::string(size_t)>& name,
                                    std::vector<CallSite>* sites, std::vector<ScoreAnswer>* parts,
                                    SiteFaults* faults) {
  std::vector<size_t> calls(sites->size());
  std::iota(calls.begin(), calls.end(), size_t{0});
  std::vector<size_t> again;
  // Made again for each repetition, so that a repeated call has a salt of its own, too: it must not
  // meet what the server kept of the attempt before.
  const auto make = [&](size_t i) {
    return facts_.path->score(facts_, (*sites)[calls[i]].part, NextSalt());
  };
  const auto fail = [&](size_t site, bool timed_out, const Error& why) -> Result<> {
    if (faults == nullptr) return Within(name((*sites)[site].sequence), why);
    faults->words[site] = why.message();
    faults->timed_out[site] = timed_out;
    return {};
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
    if (!answer.has_value()) return fail(calls[i], false, answer.error());
    if (faults == nullptr) {
      auto same = CheckSameBuild(answer->fingerprint);
      if (!same.has_value()) return Within(name(site.sequence), same.error());
    } else {
      faults->answered[calls[i]] = true;
    }
    (*parts)[calls[i]] = std::move(*answer);
    return {};
  };
  HttpPool::GiveUp give_up;
  if (faults != nullptr) {
    give_up = [&](size_t i, bool timed_out, const Error& why) {
      return fail(calls[i], timed_out, why);
    };
  }
  // At most two rounds: a site that was asked for its whole is not held back again.
  while (!calls.empty()) {
    auto ran = pool_->Run(calls.size(), make, take, give_up);
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

Result<> ServerConnection::Learn(std::span<const ScoreAsk> asks) {
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

Result<std::vector<ScoreAnswer>> ServerConnection::AskAll(
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
  KCC_TRY_VOID(AskSites(name, &sites, &parts, nullptr));
  std::vector<ScoreAnswer> answers(asks.size());
  for (size_t call = 0; call < sites.size(); ++call) {
    auto& tokens = answers[sites[call].sequence].tokens;
    std::move(parts[call].tokens.begin(), parts[call].tokens.end(), std::back_inserter(tokens));
  }
  return answers;
}

// Where the batch as a whole is given up, what was answered before counts.
std::vector<AskOutcome> ServerConnection::AskEach(std::span<const ScoreAsk> asks) {
  std::vector<AskOutcome> outcomes(asks.size());
  std::vector<ScoreAsk> fit;
  std::vector<size_t> places;  // of what is fit, in `asks`
  for (size_t i = 0; i < asks.size(); ++i) {
    auto askable = CheckAskable(facts_, asks[i]);
    if (!askable.has_value()) {
      outcomes[i].fault = askable.error().message();
      continue;
    }
    fit.push_back(asks[i]);
    places.push_back(i);
  }
  const auto learnt = Learn(fit);
  if (!learnt.has_value()) {
    for (const size_t place : places) outcomes[place].fault = learnt.error().message();
    return outcomes;
  }
  std::vector<CallSite> sites;
  for (size_t i = 0; i < fit.size(); ++i) {
    outcomes[places[i]].answer.emplace();
    for (const ScoreAsk& part : SplitAsk(facts_, fit[i])) sites.push_back({places[i], part});
  }
  std::vector<ScoreAnswer> parts(sites.size());
  SiteFaults faults{std::vector<std::string>(sites.size()), std::vector<bool>(sites.size()),
                    std::vector<bool>(sites.size())};
  const auto ran = AskSites(nullptr, &sites, &parts, &faults);
  for (size_t call = 0; call < sites.size(); ++call) {
    AskOutcome& outcome = outcomes[sites[call].sequence];
    if (!faults.answered[call] && faults.words[call].empty()) {
      faults.words[call] = ran.has_value() ? "the server did not answer" : ran.error().message();
      faults.timed_out[call] = !ran.has_value();
    }
    if (!outcome.answer) continue;
    std::string fault = std::move(faults.words[call]);
    if (fault.empty() && outcome.answer->tokens.empty()) {
      outcome.answer->fingerprint = parts[call].fingerprint;
    } else if (fault.empty() && outcome.answer->fingerprint != parts[call].fingerprint) {
      fault = "parts of one sequence were answered by '" + outcome.answer->fingerprint +
              "' and by '" + parts[call].fingerprint + "'";
    }
    if (!fault.empty()) {
      outcome = {std::nullopt, std::move(fault), faults.timed_out[call]};
      continue;
    }
    auto& tokens = outcome.answer->tokens;
    std::move(parts[call].tokens.begin(), parts[call].tokens.end(), std::back_inserter(tokens));
  }
  return outcomes;
}

Result<ProbeLists> ServerConnection::ProbeOnce(std::span<const int32_t> tokens, double temperature,
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

Result<> ServerConnection::Probe() {
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

Error ServerConnection::ProbeError(const Error& error) const {
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

// The tokens a server writes come with log-probs of its own choice; unless the row says what they
// mean, they are held against the raw ones of the scoring path.
Result<LogprobSemantics> ServerConnection::GeneratedSemantics() {
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

}  // namespace kcc
