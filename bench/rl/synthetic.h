// Batches with a known fault, from a small made-up language model: contexts with random logits of
// random sharpness, sampled by the rollout side. What is reported is then spoilt in one way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kcc/rl/lint.h"

namespace kcc::bench {

enum class Severity { kMild, kModerate, kSevere };

struct SyntheticFault {
  RlFault fault = RlFault::kNone;
  std::string variant;  // "top_p 0.9"
  double strength = 0;  // what it means depends on the fault and the variant
  Severity severity = Severity::kModerate;
};

struct SyntheticBatch {
  int64_t rows = 0, columns = 0;
  std::vector<float> train, rollout;
  std::vector<uint8_t> mask;
  std::vector<double> advantages;

  RlBatch View() const;
};

// How the numerical noise between the sides is distributed.
enum class NoiseFamily {
  kGaussian,         // 2 % of the contexts five times as noisy
  kStudentT,         // three degrees of freedom, scaled to the same spread
  kHeteroscedastic,  // grows five-fold along the row, and rows differ (log-normal, 0.7)
  kBf16Logits,       // Gaussian, and the trainer's logits rounded to bfloat16
  kBf16Logprobs,     // Gaussian, and both sides' log-probs rounded to bfloat16
  kBf16Rollout,      // Gaussian, and the engine's log-probs rounded to bfloat16
  kLaplace,          // of the same spread
  kSureTokens,       // Gaussian, and log-probs above -0.002 are exactly 0 on both sides
};
struct SyntheticWorld {
  std::string name;
  NoiseFamily family = NoiseFamily::kGaussian;
  int64_t rows = 64, columns = 160;
  // Contexts: this share has logits of sharpness 7, the others between low and high.
  double sharp_share = 0.5, sharpness_low = 1, sharpness_high = 3;
  std::vector<double> noises = {0.0005, 0.005, 0.02, 0.05};
};
// The world that the lines of lint were set in, and those that were never looked at for them: other
// families, shapes and contexts.
SyntheticWorld HomeWorld();
std::vector<SyntheticWorld> HeldOutWorlds();

// Every fault over its grid of severities; kNone at the noise of real engines.
std::vector<SyntheticFault> FaultGrid();
// The same faults at other strengths, all moderate.
std::vector<SyntheticFault> HeldOutGrid();
// logit_noise: numerical noise between the sides beside the fault.
SyntheticBatch MakeBatch(const SyntheticFault& fault, double logit_noise,
                         const SyntheticWorld& world, uint64_t seed);

}  // namespace kcc::bench
