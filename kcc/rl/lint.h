// Names the semantic fault behind a gap before its numbers are judged: log-probs of another
// distribution, another position, other weights. Each fault has a signature in the joint
// distribution of the two log-probs at the sampled token; the finding carries the evidence.
//
// A finding is a diagnosis, not a proof: `confidence` says how far the evidence is beyond the
// line, and docs/rl-lint.md has the confusion matrices. Where the tokens show a fault but not
// which, the finding is `unsure` and lists the candidates.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"

namespace kcc {

enum class RlFault : uint8_t {
  kNone,
  kTemperature,       // one side is of logits over another temperature
  kRawVsProcessed,    // engine's log-probs before its logits processors, trainer's after, or back
  kKeptMass,          // sampled under top-p or top-k: rollout is renormalised, mean w = kept mass
  kShift,             // arrays are one position apart
  kTokenization,      // log-probs are of other tokens from some position on
  kOtherWeights,      // another checkpoint or a broken weight update
  kStale,             // an older version of the weights, or arrays of an older step
  kSentinel,          // clamped or filled-in values instead of log-probs
  kEverythingMasked,  // no token is left
  kVacuous,           // the two sides are the same array: nothing was compared
  kUnsure,            // there is a gap beyond numerics, but the tokens do not tell its cause
};
inline constexpr int kRlFaults = 12;
std::string_view RlFaultName(RlFault fault);    // "temperature", "raw_vs_processed" …
std::string_view RlFaultAdvice(RlFault fault);  // what to do, a sentence

struct RlEvidence {
  std::string name;  // "slope of train on rollout"
  double value = 0;
  double line = 0;  // what it is compared with
};

struct RlFinding {
  RlFault fault = RlFault::kNone;
  double confidence = 0;  // 0..1
  std::string message;    // one sentence with the numbers
  std::vector<RlEvidence> evidence;
  std::vector<RlFault> candidates;  // of kUnsure: what the evidence leaves, likeliest first

  bool MayBe(RlFault fault) const;  // among the candidates
};

struct RlLintReport {
  std::vector<RlFinding> findings;   // most certain first; empty: clean
  std::vector<RlEvidence> features;  // all that was computed
  int64_t tokens = 0;

  RlFault fault() const { return findings.empty() ? RlFault::kNone : findings.front().fault; }
};

Result<RlLintReport> LintRl(const RlBatch& batch);

}  // namespace kcc
