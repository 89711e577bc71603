// The exact state behind RlSummary: sums of one slice's rows, which add in any order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kcc/rl/diagnostics.h"
#include "kcc/rl/level_state.h"
#include "kcc/summary/archive.h"

namespace kcc {

struct RlSkewState {
  uint64_t tokens = 0, tokens_positive = 0, tokens_negative = 0;
  RlSum positive, negative, abs_advantage, bound;

  void Merge(const RlSkewState& other);
  void Visit(Archive& archive, int version);
};

struct RlSliceState {
  uint64_t rows = 0, empty_rows = 0, zero_ratio = 0, infinite_ratio = 0, bit_equal = 0;
  std::array<RlLevelState, 4> level;
  RlSum train, rollout;
  uint64_t tv_row_count = 0;
  RlSum tv_rows, tv_rows_square;
  RlSkewState skew;
  RlLevelState mismatch, staleness;
  std::vector<uint64_t> buckets;  // kRlBuckets, or none while empty

  void AddBuckets(const std::vector<uint32_t>& counts);
  void Merge(const RlSliceState& other);
  void Visit(Archive& archive, int version);
};

}  // namespace kcc
