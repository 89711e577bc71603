// Random batches whose ratios and products of ratios run from 1 +- 1e-6 to far beyond double's
// range, and what kcc must say of them: every figure of w against its definition in long double
// with an exponent of its own, ess in (0, 1], the same bytes from any shards and threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kcc/rl/correction.h"

namespace kcc::bench {

struct FarCase {
  std::vector<double> train, rollout, advantages;
  std::vector<float> train_float, rollout_float;  // instead of the former, if not empty
  std::vector<uint8_t> mask;                      // or none
  std::vector<int64_t> offsets = {0};
  RlCorrection correction;

  int64_t rows() const { return static_cast<int64_t>(offsets.size()) - 1; }
  // Rows [begin, end), with the offsets that the view needs.
  RlBatch View(int64_t begin, int64_t end, std::vector<int64_t>* offsets_of_part) const;
};

// The same case for the same seed.
FarCase MakeFarCase(uint64_t seed);

// Empty if everything holds, else what does not.
std::string CheckFarCase(const FarCase& far_case, uint64_t seed);

}  // namespace kcc::bench
