// Calibration of one side against gold labels, in mergeable form (docs/math.md E).
//
// ECE: 15 equal-width top-label bins (a, b], integer counts and exact sums (Guo et al. 2017).
// smCE (Blasiok et al. 2023): the sum of label - confidence in each of 4,096 cells of confidence,
// in integers of 2^-32; the supremum over 1-Lipschitz functions is then exact for cell centres, and
// the distance of a confidence to its centre bounds the error: an interval that holds the truth.
// Brier: exact sum of (confidence - correct)^2.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kcc/base/interval.h"
#include "kcc/numeric/exact_sum.h"
#include "kcc/summary/archive.h"

namespace kcc {

inline constexpr size_t kEceBins = 15;
inline constexpr size_t kSmceCells = 4096;

struct CalibrationBin {
  uint64_t count = 0;
  uint64_t correct = 0;
  ExactSum confidence;
};

class SideCalibration {
 public:
  // Precondition: 0 <= confidence <= 1.
  void Add(double confidence, bool correct);
  void Merge(const SideCalibration& other);

  uint64_t count() const { return count_; }
  const std::array<CalibrationBin, kEceBins>& bins() const { return bins_; }
  // Preconditions of the three: count() > 0.
  double Ece() const;
  double Brier() const;
  Interval Smce() const;

  void Visit(Archive& archive);

 private:
  uint64_t count_ = 0;
  std::array<CalibrationBin, kEceBins> bins_;
  ExactSum brier_;
  uint64_t absolute_ = 0;           // sum of |residual|, in 2^-32, each rounded up
  std::vector<int64_t> residuals_;  // by cell, in 2^-32; empty until needed
};

// Both sides over the same tokens. The paired Brier difference is kept for tests over requests.
struct Calibration {
  std::array<SideCalibration, 2> sides;  // indexed by Side
  uint64_t unlabelled = 0;               // tokens without a gold label or without full logits

  uint64_t count() const { return sides[0].count(); }
  void Merge(const Calibration& other);
  void Visit(Archive& archive);
};

// sup over 1-Lipschitz f: [0, 1] -> [-1, 1] of sum of residual[c] f((c + 1/2) / cells), exactly up
// to double rounding. Exposed for its test.
double SmoothSupremum(const std::vector<double>& residuals);

}  // namespace kcc
