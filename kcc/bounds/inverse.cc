#include "kcc/bounds/inverse.h"

#include "kcc/bounds/divergence.h"
#include "kcc/bounds/sequence.h"

namespace kcc {

double SpanForTv(double tv) { return LargestWithin(tv, TvOfSpan); }
double SpanForKl(double kl) { return LargestWithin(kl, KlOfSpan); }
double SpanForJeffreys(double jeffreys) { return LargestWithin(jeffreys, JeffreysOfSpan); }
double SpanForChi2(double chi2) { return LargestWithin(chi2, Chi2OfSpan); }
double SpanForHellinger(double hellinger) { return LargestWithin(hellinger, HellingerOfSpan); }

double SpanForRenyi(double renyi, double order) {
  return LargestWithin(renyi, [=](double span) { return RenyiOfSpan(span, order); });
}

double SpanForSequenceTv(double tv, int64_t tokens) {
  return LargestWithin(tv, [=](double span) { return SequenceTvOfSpan(span, tokens); });
}

double SpanForRewardDrift(double drift, double reward_max, RewardRange range) {
  return LargestWithin(
      drift, [=](double span) { return RewardDriftOfTv(TvOfSpan(span), reward_max, range); });
}

double SpanForSequenceRewardDrift(double drift, double reward_max, RewardRange range,
                                  int64_t tokens) {
  return LargestWithin(drift, [=](double span) {
    return RewardDriftOfTv(SequenceTvOfSpan(span, tokens), reward_max, range);
  });
}

double SpanForGradientBias(double bias, Correction correction, CorrectionRange range,
                           double advantage_max, double score_norm_max) {
  return LargestWithin(bias, [=](double span) {
    return GradientBiasOfSpan(span, correction, range, advantage_max, score_norm_max);
  });
}

double SpanForTrajectoryBias(double bias, int64_t tokens, double advantage_max,
                             double score_norm_max) {
  return LargestWithin(bias, [=](double span) {
    return TrajectoryBiasOfSpan(span, tokens, advantage_max, score_norm_max);
  });
}

double KlForTv(double tv) { return LargestWithin(tv, TvOfKl); }
double MeanAbsLogRatioForTv(double tv) { return LargestWithin(tv, TvOfMeanAbsLogRatio); }

double LinfForSpan(double span, double temperature) {
  return LargestWithin(span, [=](double linf) { return SpanOfLinf(linf, temperature); });
}

double L2ForSpan(double span, double temperature) {
  return LargestWithin(span, [=](double l2) { return SpanOfL2(l2, temperature); });
}

double TvForRewardDrift(double drift, double reward_max, RewardRange range) {
  return LargestWithin(
      drift, [=](double tv) { return RewardDriftOfTv(tv, reward_max, range); }, 1.0);
}

double TvForGradientBias(double bias, double advantage_max, double score_norm_max) {
  return LargestWithin(
      bias, [=](double tv) { return GradientBiasOfTv(tv, advantage_max, score_norm_max); }, 1.0);
}

}  // namespace kcc
