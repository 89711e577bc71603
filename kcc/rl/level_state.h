// The exact state of one level (tokens, sequences, …): sums over its units' log-ratios d.
//
// Metrics of w = e^d need care at both ends. Where w is near 1 they are taken about 1, from
// e = w - 1, or the small gaps that are looked for cancel. Far from 1 that loses w itself: e of a
// sequence with w = e^-40 is -1, and with w = e^400 its square is infinite. So a unit with |d| > 1
// is far, and its w and w^2 are summed as they are (WideSum: exact, of any size, in any order).
// Tokens come as sums of a row; a row whose sums say enough of its w stays near as a whole, any
// other is taken apart. Near or far is decided by the unit or row alone, so that states still add
// in any order. Nothing overflows; a metric beyond double's range is its rounding, infinite or 0.
#pragma once

#include <cstdint>
#include <limits>

#include "kcc/numeric/double_math.h"
#include "kcc/numeric/exact_sum.h"
#include "kcc/numeric/wide_sum.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/row_kernel.h"
#include "kcc/summary/archive.h"

namespace kcc {

// How summaries are written. 1 had no far units: everything was summed about 1.
inline constexpr int kRlStateVersion = 2;

// A sum of doubles that may overflow one by one: infinities are counted, never added.
class RlSum {
 public:
  void Add(double value);
  void AddSquare(double value);
  void Merge(const RlSum& other);
  double Value() const;
  double Mean(uint64_t count) const;  // NaN of none
  bool IsFinite() const { return infinite_ + negative_infinite_ == 0; }
  const ExactSum& sum() const { return sum_; }  // of what is finite
  void Visit(Archive& archive, int version);

 private:
  double Infinite() const;

  ExactSum sum_;
  uint64_t infinite_ = 0, negative_infinite_ = 0;
};

// What one unit adds, computed once for all levels it is a unit of.
struct RlUnit {
  explicit RlUnit(double log_ratio);

  double d;
  bool far;
  double e = 0;                   // of the near
  double k3 = 0, k3_reverse = 0;  // as RlLevelState sums them
  double below = 0;               // (1 - w)+
  ScaledExponential w = {0, 0};   // of the far
};

struct RlLevelState {
  uint64_t units = 0;
  uint64_t far = 0;  // of them
  // Units of version 1 of which some are far, but summed about 1 as the near.
  uint64_t unsplit = 0;
  RlSum d, abs_d, square_d, below;  // of all units; below = (1 - w)+
  RlSum e, square_e;                // of the near
  RlSum k3;                         // far: -1 - d, to which w adds the rest
  RlSum k3_reverse;                 // far with d > 0: 1, to which w_excess adds the rest
  WideSum w, w_square;              // of the far
  WideSum w_excess;                 // w (d - 1), of the far with d > 0
  double min_d = std::numeric_limits<double>::infinity();
  double max_d = -std::numeric_limits<double>::infinity();

  // A row of tokens, near as a whole (IsNearRow).
  void AddRow(const RlRowSums& sums, int64_t tokens);
  void AddUnit(const RlUnit& unit);
  void Merge(const RlLevelState& other);
  void Visit(Archive& archive, int version);
  // Their ess is in (0, 1], or NaN without units or where version 1 has lost it; anything else
  // comes from sums that contradict each other.
  RlLevelMetrics Metrics() const;

 private:
  bool Overflowed() const;
  void LeaveOutTheLost(RlLevelMetrics* out) const;
  void FillNear(RlLevelMetrics* out) const;
  void FillFar(RlLevelMetrics* out) const;
};

}  // namespace kcc
