// What a step knows of its scored tokens, as the dump that kcc rl reads: so that diagnostics,
// corrections and verdicts of a step are those of `kcc rl diagnose`, `correct` and `judge` on the
// same arrays.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/dump.h"
#include "kcc/rltrain/sampler.h"

namespace kcc {

// By token, sequence after sequence; the log-probs of the same answers.
struct ScoredTokens {
  std::vector<const SampledAnswer*> answers;
  std::vector<int64_t> offsets;  // one more than answers
  std::vector<float> now;        // by the kernel that is trained, with its weights as they are
  std::vector<float> old;        // what the loss divides by
  bool old_is_apart = false;     // computed for itself: neither now nor the rollout's
  std::vector<float> rollout;
  std::vector<float> reference;      // empty: not computed
  std::vector<double> advantages;    // by token
  bool advantage_per_answer = true;  // all tokens of an answer have the same

  size_t tokens() const { return now.size(); }
  // The answers with their lengths and rollout log-probs.
  static ScoredTokens Of(std::vector<const SampledAnswer*> answers);
};

// Packed; with `old` where it is apart. `corrected`: what stands for the trainer is `old`, as
// corrections see it.
RlDump DumpOf(const ScoredTokens& scored, bool corrected);
// As a safetensors file that ReadRlDump gives back.
std::string DumpBytes(const RlDump& dump);

}  // namespace kcc
