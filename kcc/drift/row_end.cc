// With weights e (p = e/Z), E = e^x - 1 and delta = log sum p e^x, the true log-ratio is x - delta.
// Each divergence of docs/design.md section 6, in x - delta, expands into sums over x alone:
//   sum e (e^(x-delta) - 1 - (x-delta)) = R + m Q + Z r(-delta)              kl
//   sum e ((x-delta) e^(x-delta) - ...) = e^-delta (V - delta Q + Z r(delta))  reverse_kl
//   sum e (e^(x-delta) - 1)^2           = e^-2delta W + 2 m e^-delta Q + m^2 Z  reverse_chi2
//   sum e 2 (cosh(x-delta) - 1)         = e^delta C - 2 sinh(delta) Q + Z c(delta)  chi2
// with Q = sum e E, R = sum e (E - x), V = sum e (x e^x - E), W = sum e E^2, C = sum e 2(cosh x -
// 1), r(t) = e^t - 1 - t, c(t) = 2 (cosh t - 1), m = expm1(-delta). So one visit to the row is
// enough; only tv needs delta first. The terms cancel where |delta| is large against x - delta; the
// amplification says how much, and the caller then chooses another shift.
//
// The pivot is the train side's most likely token. Its ratio follows from the others alone:
//   pivot_ratio = -log1p((k Q + (k - 1) Z_others) / Z),  k = e^-x_pivot,
// which stays exact when the others weigh 1e-16. Where a heavy token differs by as much as the
// pivot, Q and Z_others cancel even in double. Its two terms together are e (e^(x - x_pivot) - 1),
// which does not; so the carried tokens are then summed in that form.
#include "kcc/drift/row_end.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/drift/row_rules.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// Ten digits of an argument that is this much of its terms are left. Taken where nothing cancels,
// the other form would only round differently.
constexpr double kLeastOfTerms = 1e-6;

// The chi-squareds may cancel this much more than kl: of ordinary rows they cancel as kl does, to
// within a few parts in a hundred, and are not to decide.
constexpr double kChi2Leniency = 2;

bool AllFinite(const RestSums& rest) {
  return std::all_of(rest.begin(), rest.end(), [](double v) { return std::isfinite(v); });
}

// The pivot's log-ratio and delta. False if rounding has left nothing to take a logarithm of.
bool SolveDelta(const RestSums& rest, const CarriedToken& pivot,
                std::span<const CarriedToken> carried, double* others, RowSolution* row) {
  double q = rest[kSumQ];
  *others = rest[kSumE];
  for (const CarriedToken& token : carried) {
    q += token.e * Expm1(token.x);
    *others += token.e;
  }
  row->z = pivot.e + *others;
  const double k_less_1 = Expm1(-pivot.x);
  const double of_q = (1 + k_less_1) * q;
  const double of_weight = k_less_1 * *others;
  double argument = (of_q + of_weight) / row->z;
  row->near_pivot =
      std::fabs(of_q + of_weight) < kLeastOfTerms * (std::fabs(of_q) + std::fabs(of_weight));
  if (row->near_pivot) {
    double sum = (1 + k_less_1) * rest[kSumQ] + k_less_1 * rest[kSumE];
    for (const CarriedToken& token : carried) sum += token.e * Expm1(token.x - pivot.x);
    argument = sum / row->z;
  }
  if (!(argument > -1 + 1e-6)) return false;
  row->pivot_ratio = 0.0 - Log1p(argument);
  row->delta = pivot.x - row->pivot_ratio;
  return true;
}

}  // namespace

// From what a block sums in its range to the sums as they are defined. In the nearest range, with
// M_k = sum e x^k, J = sum e x E = M_2 + M_3/2 + M_4/6 + M_5/24 ... gives M_3, and
//   sum e (E - x) = M_2/6 + J/3 - M_4/72 - M_5/180,  2 sum e (cosh x - 1) = M_2 + M_4/12
// to 7e-7 and 4e-8; the small M_5 is taken as 3/4 h^2 M_3, h being the end of the range.
void ToDefinitions(int range, double (&sums)[kSumDSquare + 1]) {
  if (range == kNearestRange) {
    constexpr double kEnd = double{kExpRangeEnds[kNearestRange]};
    const double m2 = sums[kSumResidual];
    const double m4 = sums[kSumCosh];
    const double j = sums[kSumReverse];
    const double m5 = 0.75 * kEnd * kEnd * 2 * (j - m2 - m4 / 6);
    sums[kSumResidual] = m2 / 6 + j / 3 - m4 / 72 - m5 / 180;
    sums[kSumCosh] = 0.5 * (m2 + m4 / 12);
  }
  // x E less the residual E - x is the reverse term itself.
  if (range != kWideRange) sums[kSumReverse] -= sums[kSumResidual];
}

double SumLanes(const double (&lanes)[16]) {
  double sum[8];
  for (size_t i = 0; i < 8; ++i) sum[i] = lanes[i] + lanes[i + 8];
  for (size_t i = 0; i < 4; ++i) sum[i] += sum[i + 4];
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

RowSolution SolveRow(const RestSums& rest, const CarriedToken& pivot,
                     std::span<const CarriedToken> carried) {
  RowSolution row;
  row.amplification = kInf;
  double others = 0;
  if (!std::isfinite(rest[kSumE]) || !std::isfinite(rest[kSumQ])) return row;
  if (!SolveDelta(rest, pivot, carried, &others, &row)) return row;
  const double delta = row.delta;
  const double m = Expm1(-delta);
  const double shrink = 1 + m;  // e^-delta
  const double z = rest[kSumE];
  const double q = rest[kSumQ];

  const double linear = m * q;
  const double constant = z * ExpResidual(-delta);
  double kl = rest[kSumResidual] + linear + constant;
  double reverse_kl = shrink * (rest[kSumReverse] - delta * q + z * ExpResidual(delta));
  double reverse_chi2 = shrink * shrink * rest[kSumSquare] + 2 * m * shrink * q + m * m * z;
  double chi2 = 2 * rest[kSumCosh] / shrink - (1 / shrink - shrink) * q + z * CoshResidual(delta);
  // Everything about entropy is relative to the pivot, whose own terms then vanish.
  const double pivot_log_share = Log1p(others / pivot.e);
  row.log_z = pivot.logit + pivot_log_share;
  row.confidence = pivot.e / row.z;
  double entropy = pivot.e * pivot_log_share + z * row.log_z - rest[kSumELogit];
  double change =
      shrink * (rest[kSumQLogit] - pivot.logit * q) + m * (rest[kSumELogit] - pivot.logit * z);

  const auto add = [&](const CarriedToken& token, double ratio) {
    const double excess = Expm1(ratio);
    const double residual = ExpResidual(ratio);
    kl += token.e * residual;
    reverse_kl += token.e * (std::fabs(ratio) < 1 ? ratio * excess - residual
                                                  : 1 + (ratio - 1) * (excess + 1));
    reverse_chi2 += token.e * excess * excess;
    chi2 += token.e * CoshResidual(ratio);
    change += token.e * excess * (token.logit - pivot.logit);
  };
  add(pivot, row.pivot_ratio);
  for (const CarriedToken& token : carried) {
    add(token, row.RatioOf(token, pivot));
    entropy += token.e * (row.log_z - token.logit);
  }

  row.kl = std::max(0.0, kl / row.z);
  row.reverse_kl = std::max(0.0, reverse_kl / row.z);
  row.chi2 = std::max(0.0, chi2 / row.z);
  row.reverse_chi2 = std::max(0.0, reverse_chi2 / row.z);
  row.train_entropy = std::max(0.0, entropy / row.z);
  // H(q) - H(p) = -sum (q - p) log p - KL(q || p).
  const double moved = -change / row.z;
  row.entropy_gap = std::fabs(moved - row.reverse_kl);
  row.infer_entropy = std::max(0.0, row.train_entropy + (moved - row.reverse_kl));
  row.infer_entropy_cancels =
      4 * row.infer_entropy < row.train_entropy + std::fabs(moved) + row.reverse_kl;
  const bool sound = AllFinite(rest) && std::isfinite(row.chi2 + row.reverse_chi2) &&
                     !IsBelowZero(kl / row.z) && !IsBelowZero(reverse_kl / row.z);
  // About a large delta the chi-squareds cancel far more than kl does, elsewhere as much.
  const auto share = [](double magnitude, double value) {
    return magnitude == 0 ? 0 : magnitude / std::max(value, 0.0);
  };
  const double of_kl = share(rest[kSumResidual] + std::fabs(linear) + constant, kl);
  const double of_chi2 = share(
      2 * rest[kSumCosh] / shrink + std::fabs((1 / shrink - shrink) * q) + z * CoshResidual(delta),
      chi2);
  const double of_reverse =
      share(shrink * shrink * rest[kSumSquare] + std::fabs(2 * m * shrink * q) + m * m * z,
            rest[kSumSquare] > 0 ? reverse_chi2 : kInf);
  row.amplification =
      !sound ? kInf : std::max(of_kl, std::max(of_chi2, of_reverse) / kChi2Leniency);
  return row;
}

OpenVariation::OpenVariation(const RowSolution& row, const CarriedToken& pivot,
                             std::span<const CarriedToken> carried)
    : slope(static_cast<float>(Expm1(row.delta))), factor(Exp(-row.delta)), z(row.z) {
  apart = pivot.e * std::fabs(Expm1(row.pivot_ratio));
  for (const CarriedToken& token : carried) {
    apart += token.e * std::fabs(Expm1(row.RatioOf(token, pivot)));
  }
}

double OpenVariation::Close(double rest_absolute) const {
  return std::min(1.0, 0.5 * (factor * rest_absolute + apart) / z);
}

}  // namespace kcc
