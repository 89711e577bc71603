// What a divergence can cost: reward drift (docs/math.md A.4) and policy-gradient bias (A.7).
//
// Assumptions A1-A3 of the paper: train's support covers infer's, |advantage| <= A, the score's
// norm <= G. All bounds are per token at a fixed context unless they say otherwise; averaging over
// contexts is linear. Preconditions: arguments >= 0 and finite where they are not spans.
#pragma once

#include <cstdint>

#include "kcc/bounds/weights.h"

namespace kcc {

enum class RewardRange { kZeroToR, kMinusRToR };

// --- reward ------------------------------------------------------------------------------------
// |E_p r - E_q r| <= osc(r) TV; osc is R or 2R. Sharp. Whole sequences: TV of the sequences.
double RewardDriftOfTv(double tv, double reward_max, RewardRange range);
// The variance form, often far smaller: sd_q(r) sqrt(chi2). Sharp (Cauchy-Schwarz).
double RewardDriftOfChi2(double chi2, double reward_sd);
// The lesser of osc(r) tanh(s/4) and sd_q(r) sinh(s/2).
double RewardDriftOfSpan(double span, double reward_max, RewardRange range, double reward_sd);
// A percentile clause, span <= s on all but a share eps of contexts: osc ((1 - eps) tanh(s/4) +
// eps).
double RewardDriftOfSoftSpan(double span, double exceedance, double reward_max, RewardRange range);

// --- gradient bias of one token ----------------------------------------------------------------
// A G sup E_q|w - phi(w)| at span s: the worst the estimator's bias can be.
double GradientBiasOfSpan(double span, Correction correction, CorrectionRange range,
                          double advantage_max, double score_norm_max);
// The same from what was measured: mean_gap is E_q|w - phi(w)|, the mean of WeightGap().
double GradientBiasOfGap(double mean_gap, double advantage_max, double score_norm_max);
// Uncorrected: 2 A G TV.
double GradientBiasOfTv(double tv, double advantage_max, double score_norm_max);
// Uncorrected, from either KL: A G min(sqrt(2 KL), 2 sqrt(1 - e^-KL)).
double GradientBiasOfKl(double kl, double advantage_max, double score_norm_max);
// Uncorrected, from E_q|log w|: 2 A G E_q|log w|. (A G E_q|log w| alone is false: p = (.5, .5),
// q = (.1, .9) has bias .800 A G and E_q|log w| = .690.)
double GradientBiasOfMeanAbsLogRatio(double mean, double advantage_max, double score_norm_max);
// Full importance sampling has no bias and this second moment E_q w^2: cosh(s/2)^2. Sharp.
double ImportanceVarianceFactor(double span);

// --- trajectories of T tokens, span <= s at every step and prefix ---------------------------
// An advantage of a token depends on the prefix and that token; an outcome advantage (GRPO) on the
// whole continuation. A bound for outcomes holds for tokens as well, and is never the smaller.
//
// Advantages of tokens, uncorrected: 2 A G sum_{t<=T} TV(P_<=t, Q_<=t), with A.6 (c) inside. Grows
// like A G s T^{3/2}/3. Cost: O(min(T, 4096 log T)).
double TrajectoryBiasOfSpan(double span, int64_t tokens, double advantage_max,
                            double score_norm_max);
// Advantages of tokens, token weights w_t: prefixes still come from Q, so not 0 but
// 2 A G sum_{t<T} TV(P_<=t, Q_<=t).
double TrajectoryBiasWithTokenWeights(double span, int64_t tokens, double advantage_max,
                                      double score_norm_max);
// Outcome advantages, uncorrected: 2 A G T TV(P, Q): each of the T scores meets an advantage that
// sees all of the continuation.
double OutcomeBiasOfTv(double sequence_tv, int64_t tokens, double advantage_max,
                       double score_norm_max);
double OutcomeBiasOfSpan(double span, int64_t tokens, double advantage_max, double score_norm_max);
// Outcome advantages, token weights: A G sum_t E_Q|W - w_t|, where
// E_Q|W - w_t| = 2 TV(P, Q with step t drawn from P) <= 2 TV over T - 1 steps.
double OutcomeBiasWithTokenWeights(double span, int64_t tokens, double advantage_max,
                                   double score_norm_max);
// Outcome advantages, min(W, c) on whole sequences: A G_seq E_Q(W - c)_+, with G_seq the norm bound
// of the summed score. Bounded by the hockey stick at span T s and by the sequences' TV.
double OutcomeBiasTruncated(double span, int64_t tokens, double c, double advantage_max,
                            double sequence_score_norm_max);

}  // namespace kcc
