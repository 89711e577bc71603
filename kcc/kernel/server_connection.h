// A server that was found and probed, and the way of sequences through it: what the kernel that
// writes traces (server_kernel.h) and the scorer in memory (token_scorer.h) have in common.
//
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
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/server_dialect.h"
#include "kcc/kernel/server_options.h"
#include "kcc/kernel/server_probe.h"
#include "kcc/kernel/server_score.h"

namespace kcc {

// What became of one sequence, where each fails by itself.
struct AskOutcome {
  std::optional<ScoreAnswer> answer;
  std::string fault;  // where there is none
  bool timed_out = false;
};

class ServerConnection {
 public:
  explicit ServerConnection(ServerOptions options);

  // Finds out who answers, and asks the probe (server_probe.h) unless the options switch it off.
  // Messages may quote the server, and its key with it: the caller takes that out.
  Result<> Open();

  const ServerOptions& options() const { return options_; }
  const ServerFacts& facts() const { return facts_; }
  HttpPool& pool() { return *pool_; }
  std::string NextSalt() { return options_.salt + "-" + std::to_string(++salts_); }

  // One build answers all, from the first call of the probe on: behind a load balancer half of a
  // trace could otherwise come from another version. Empty: the server does not say its build.
  const std::string& build() const { return build_; }
  Result<> CheckSameBuild(const std::string& fingerprint);

  // The answers to all sequences, or the first error; `name` says what a sequence is called in it.
  Result<std::vector<ScoreAnswer>> AskAll(std::span<const ScoreAsk> asks,
                                          const std::function<std::string(size_t)>& name);
  // Each sequence by itself. Builds are not compared but within one sequence: its answer says which
  // build gave it.
  std::vector<AskOutcome> AskEach(std::span<const ScoreAsk> asks);

  // What the log-probs of generated tokens mean, as the server's row says, or held against raw ones
  // of the scoring path.
  Result<LogprobSemantics> GeneratedSemantics();

 private:
  // One call: which sequence it is about, and what it asks of it.
  struct CallSite {
    size_t sequence = 0;
    ScoreAsk part;
  };
  // What failed, by site; where there is such a list a site fails by itself.
  struct SiteFaults {
    std::vector<std::string> words;  // empty: none
    std::vector<bool> timed_out;
    std::vector<bool> answered;
  };

  Result<> Probe();
  // Says that it was the probe, which nobody asked for, and how to do without it.
  Error ProbeError(const Error& error) const;
  Result<> AskSites(const std::function<std::string(size_t)>& name, std::vector<CallSite>* sites,
                    std::vector<ScoreAnswer>* parts, SiteFaults* faults);
  // Asks about the ids that were not met before.
  Result<> Learn(std::span<const ScoreAsk> asks);
  Result<ProbeLists> ProbeOnce(std::span<const int32_t> tokens, double temperature, bool narrow);

  ServerOptions options_;
  std::unique_ptr<HttpPool> pool_;
  ServerFacts facts_;
  std::string build_;  // what the first answer said of its build
  uint64_t salts_ = 0;
};

// The same error, with what it is about before it.
Error Within(const std::string& where, const Error& error);

}  // namespace kcc
