// The end of a row in double: from the sums that the vector kernels made, and the few tokens that
// were carried apart, to the divergences (formulas in row_end.cc).
#pragma once

#include <span>

#include "kcc/drift/row_kernels.h"

namespace kcc {

// A token kept out of the float32 sums, in double.
struct CarriedToken {
  double e = 0;      // its weight, in the unit of the sums
  double x = 0;      // (infer - train - shift) / temperature
  double logit = 0;  // (train - origin - centre) / temperature
};

// kSumE ... kSumQLogit over the tokens that are not carried; the last two over logits as above.
using RestSums = std::array<double, kSumD>;

// From what blocks sum in a range (row_kernels.h) to the sums as they are defined, in place.
void ToDefinitions(int range, double (&sums)[kSumDSquare + 1]);

double SumLanes(const double (&lanes)[16]);

struct RowSolution {
  // x - delta is log(q/p) of a token; the pivot's is kept apart, where the difference would cancel.
  double delta = 0;
  double pivot_ratio = 0;
  // Whether delta is so near to the pivot's x that a token's ratio is taken from the pivot's.
  bool near_pivot = false;
  double log_z = 0;  // log sum e^logit, so that log p = logit - log_z
  double z = 0;      // sum of all weights
  double confidence = 0;
  double kl = 0;
  double reverse_kl = 0;
  double chi2 = 0;
  double reverse_chi2 = 0;
  double train_entropy = 0;
  double infer_entropy = 0;
  double entropy_gap = 0;
  // Whether the infer entropy lost digits as a difference.
  bool infer_entropy_cancels = false;
  // How much the subtractions below enlarge the relative error of the sums; +inf: unusable.
  double amplification = 0;

  double RatioOf(const CarriedToken& token, const CarriedToken& pivot) const {
    return near_pivot ? (token.x - pivot.x) + pivot_ratio : token.x - delta;
  }
};

RowSolution SolveRow(const RestSums& rest, const CarriedToken& pivot,
                     std::span<const CarriedToken> carried);

// tv but for the sum over the rest of |e E - slope e|, which can only be taken once delta is known.
struct OpenVariation {
  OpenVariation() = default;
  OpenVariation(const RowSolution& row, const CarriedToken& pivot,
                std::span<const CarriedToken> carried);
  double Close(double rest_absolute) const;

  float slope = 0;    // expm1(delta)
  double factor = 0;  // of that sum
  double apart = 0;   // what pivot and carried tokens add
  double z = 1;
};

}  // namespace kcc
