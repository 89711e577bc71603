// Batches of real engines with a known fault: what two kernels say, with full logits, at the same
// prefixes; the token at each prefix is drawn anew from the distribution that the engine samples
// from, and what is reported of it is spoilt in one way.
//
// The prefixes are an engine's own continuations. A token drawn anew changes no later prefix: every
// position has the law it has in a run, rows lack what one draw does to the next positions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/rl/synthetic.h"
#include "kcc/base/result.h"

namespace kcc::bench {

// The logits of both sides at every scored position, row by row.
struct EnginePool {
  size_t vocab = 0;
  std::vector<size_t> row_begin = {0};
  std::vector<int32_t> tokens;  // the continuation itself, for penalties
  std::vector<float> rollout, train;

  size_t rows() const { return row_begin.size() - 1; }
};

// Of two traces with full logits of the same requests.
Result<EnginePool> ReadEnginePool(const std::string& rollout, const std::string& train);

// What happens to the numbers; `truth` is the name lint ought to give.
enum class EngineChange {
  kClean,               // both at temperature `strength`
  kCleanBf16,           // and both sides' log-probs rounded to bfloat16
  kCutBothRaw,          // sampled under top-p; both report raw
  kRolloutTemperature,  // engine samples and reports at `strength`, trainer at 1
  kTrainTemperature,    // engine at 1, trainer at `strength`
  kRawTemperature,      // sampled at `strength`, reported raw; trainer at `strength`
  kTopP,                // engine samples and reports under a cut, trainer raw
  kTopK,
  kMinP,
  kRawTopP,  // engine reports raw, trainer applies the cut
  kPenalty,  // engine samples and reports under a repetition penalty, trainer raw
  kShift,
  kTokenization,
  kStaleArrays,
  kStaleWeights,
  kSentinel,
};
struct EngineFault {
  RlFault truth = RlFault::kNone;
  EngineChange change = EngineChange::kClean;
  double strength = 1;
  std::string name;  // "top-p 0.8"
  // Which continuations are nearest to what such a sampler would write.
  std::string prefixes() const;
};

// The faults that the lines were set by, and strengths that were not looked at for them.
std::vector<EngineFault> EngineFaults();
std::vector<EngineFault> HeldOutEngineFaults();

// A pool under a fault, from which batches are drawn.
class EngineSource {
 public:
  EngineSource(const EnginePool& pool, const EngineFault& fault);

  // Rows in random order until they hold `tokens` tokens, or all of them.
  SyntheticBatch Draw(int64_t tokens, uint64_t seed) const;

 private:
  const EnginePool& pool_;
  EngineFault fault_;
  // [position, vocab]: cumulative probabilities of the sampler, and what the sides report.
  std::vector<float> cumulative_, rollout_, train_;
};

}  // namespace kcc::bench
