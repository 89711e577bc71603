#include "kcc/bounds/consequence.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/bounds/divergence.h"
#include "kcc/bounds/rounding.h"
#include "kcc/bounds/sequence.h"

namespace kcc {
namespace {

double Oscillation(double reward_max, RewardRange range) {
  return range == RewardRange::kZeroToR ? reward_max : 2.0 * reward_max;
}

// sum_{t=1}^{T} TV(P_<=t, Q_<=t). The terms rise with t, so a block counted at its last term is an
// upper bound; blocks of one until 4096, then of 1/4096 of their place.
double SumOfPrefixTv(double span, int64_t tokens) {
  constexpr int64_t kExact = 4096;
  double sum = 0;
  int64_t terms = 0;
  for (int64_t t = 0; t < tokens; ++terms) {
    const int64_t block = std::min(tokens - t, std::max<int64_t>(1, t / kExact));
    t += block;
    sum += static_cast<double>(block) * SequenceTvOfSpan(span, t);
  }
  return sum * (1.0 + static_cast<double>(terms) * 0x1p-52);
}

}  // namespace

double RewardDriftOfTv(double tv, double reward_max, RewardRange range) {
  return RoundUp(Oscillation(reward_max, range) * std::fmin(1.0, tv));
}

double RewardDriftOfChi2(double chi2, double reward_sd) {
  return reward_sd == 0 ? 0 : RoundUp(reward_sd * std::sqrt(chi2));
}

double RewardDriftOfSpan(double span, double reward_max, RewardRange range, double reward_sd) {
  return std::fmin(RewardDriftOfTv(TvOfSpan(span), reward_max, range),
                   RewardDriftOfChi2(Chi2OfSpan(span), reward_sd));
}

double RewardDriftOfSoftSpan(double span, double exceedance, double reward_max, RewardRange range) {
  KCC_CHECK(exceedance >= 0 && exceedance <= 1);
  const double share = (1.0 - exceedance) * TvOfSpan(span) + exceedance;
  return RoundUp(Oscillation(reward_max, range) * std::fmin(1.0, share));
}

double GradientBiasOfSpan(double span, Correction correction, CorrectionRange range,
                          double advantage_max, double score_norm_max) {
  return GradientBiasOfGap(WeightGapOfSpan(span, correction, range), advantage_max, score_norm_max);
}

double GradientBiasOfGap(double mean_gap, double advantage_max, double score_norm_max) {
  return RoundUp(advantage_max * score_norm_max * mean_gap);
}

double GradientBiasOfTv(double tv, double advantage_max, double score_norm_max) {
  return GradientBiasOfGap(2.0 * std::fmin(1.0, tv), advantage_max, score_norm_max);
}

double GradientBiasOfKl(double kl, double advantage_max, double score_norm_max) {
  return GradientBiasOfTv(TvOfKl(kl), advantage_max, score_norm_max);
}

double GradientBiasOfMeanAbsLogRatio(double mean, double advantage_max, double score_norm_max) {
  return GradientBiasOfTv(TvOfMeanAbsLogRatio(mean), advantage_max, score_norm_max);
}

double ImportanceVarianceFactor(double span) { return RoundUp(1.0 + Chi2OfSpan(span)); }

double TrajectoryBiasOfSpan(double span, int64_t tokens, double advantage_max,
                            double score_norm_max) {
  return GradientBiasOfGap(2.0 * SumOfPrefixTv(span, tokens), advantage_max, score_norm_max);
}

double TrajectoryBiasWithTokenWeights(double span, int64_t tokens, double advantage_max,
                                      double score_norm_max) {
  return TrajectoryBiasOfSpan(span, std::max<int64_t>(0, tokens - 1), advantage_max,
                              score_norm_max);
}

double OutcomeBiasOfTv(double sequence_tv, int64_t tokens, double advantage_max,
                       double score_norm_max) {
  const double gap = 2.0 * static_cast<double>(tokens) * std::fmin(1.0, sequence_tv);
  return GradientBiasOfGap(gap, advantage_max, score_norm_max);
}

double OutcomeBiasOfSpan(double span, int64_t tokens, double advantage_max, double score_norm_max) {
  return OutcomeBiasOfTv(SequenceTvOfSpan(span, tokens), tokens, advantage_max, score_norm_max);
}

double OutcomeBiasWithTokenWeights(double span, int64_t tokens, double advantage_max,
                                   double score_norm_max) {
  const double tv = SequenceTvOfSpan(span, std::max<int64_t>(0, tokens - 1));
  return OutcomeBiasOfTv(tv, tokens, advantage_max, score_norm_max);
}

double OutcomeBiasTruncated(double span, int64_t tokens, double c, double advantage_max,
                            double sequence_score_norm_max) {
  const double whole = tokens == 0 ? 0 : RoundUp(static_cast<double>(tokens) * span);
  const double excess = std::fmin(ExcessAboveOfSpan(whole, c), SequenceTvOfSpan(span, tokens));
  return GradientBiasOfGap(excess, advantage_max, sequence_score_norm_max);
}

}  // namespace kcc
