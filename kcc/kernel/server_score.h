// The way from a sequence to its log-probs on any server: which path it takes, what may be asked,
// and what an answer says. The answers are read by the importers' parsers (kcc/trace); here it is
// checked that an answer is about exactly the tokens that were asked. What differs between servers
// is in their rows (server_dialect.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/server_dialect.h"

namespace kcc {

// What an answer says, at the positions that were asked.
struct ScoreAnswer {
  std::string fingerprint;  // system_fingerprint or weight_version; may be empty
  std::vector<ImportedToken> tokens;
  // Of generated ones: when the call was sent, and how long it took to the end of the answer.
  int64_t started_at_ms = 0;
  double seconds = 0;
  bool failed = false;  // there is no answer, after all repetitions
  bool timed_out = false;
};

// The server's path, or why it does not have the one that was asked for.
Result<const ServerPath*> ChoosePath(const ServerDialect& server, std::optional<TracePath> asked);

// Fails on a sequence that no server can be asked about. Ids outside the vocabulary must not be
// sent: vLLM's engine dies of them.
Result<> CheckAskable(const ServerFacts& facts, const ScoreAsk& ask);

// The parts of a sequence that take a call each, in order; none where nothing is scored.
std::vector<ScoreAsk> SplitAsk(const ServerFacts& facts, const ScoreAsk& ask);
// Of one part.
Result<ScoreAnswer> ReadScore(const ServerFacts& facts, const ScoreAsk& ask,
                              const std::string& body);

Result<ScoreAnswer> ReadGenerated(const ServerFacts& facts, const GenerateAsk& ask,
                                  const std::string& body);

}  // namespace kcc
