// The exact state behind RlSummary: sums of one slice's rows, which add in any order.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "kcc/numeric/exact_sum.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/row_kernel.h"
#include "kcc/summary/archive.h"

namespace kcc {

// A sum of doubles that may overflow one by one: infinities are counted, never added.
class RlSum {
 public:
  void Add(double value);
  void Merge(const RlSum& other);
  double Value() const;
  void Visit(Archive& archive);

 private:
  ExactSum sum_;
  uint64_t infinite_ = 0;  // all positive: squares and ratios are what overflows
};

struct RlLevelState {
  uint64_t units = 0;
  RlSum d, abs_d, square_d, e, abs_e, square_e, k3, k3_reverse, below;
  double min_d = std::numeric_limits<double>::infinity();
  double max_d = -std::numeric_limits<double>::infinity();

  void AddRow(const RlRowSums& sums, int64_t tokens);
  void AddUnit(double log_ratio);
  void Merge(const RlLevelState& other);
  void Visit(Archive& archive);
  RlLevelFigures Figures() const;
};

struct RlSkewState {
  uint64_t tokens = 0, tokens_positive = 0, tokens_negative = 0;
  RlSum positive, negative, abs_advantage, bound;

  void Merge(const RlSkewState& other);
  void Visit(Archive& archive);
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
  void Visit(Archive& archive);
};

}  // namespace kcc
