// Batches with a known fault, from a small made-up language model: contexts with random logits of
// random sharpness, sampled by the rollout side. What is reported is then spoilt in one way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kcc/rl/batch.h"
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

// Every fault over its grid of severities; kNone at the noise of real engines.
std::vector<SyntheticFault> FaultGrid();
// logit_noise: numerical noise between the sides beside the fault.
SyntheticBatch MakeBatch(const SyntheticFault& fault, double logit_noise, int64_t rows,
                         int64_t columns, uint64_t seed);

}  // namespace kcc::bench
