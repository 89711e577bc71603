// From logit drift to divergence, for one token (docs/math.md A.2, A.3).
//
// p = softmax(z_train/tau), q = softmax(z_infer/tau), Delta their scaled difference, w = p/q and
// s = span(Delta) = max - min. Everything follows from s: log w ranges over an interval of width
// exactly s, and the worst case of a convex quantity is always two-point. Each bound is sharp
// unless it says otherwise, rises with its argument, is 0 at 0 and is rounded outward.
// Precondition everywhere: arguments >= 0 (+inf allowed), temperature > 0.
#pragma once

namespace kcc {

// --- spans -------------------------------------------------------------------------------------
// 2 linf / tau. Equality for the centred min_c ||z - z' - c||_inf; raw linf is never smaller.
double SpanOfLinf(double linf, double temperature);
// sqrt(2) l2 / tau, of centred or raw logits; equality for differences (+, -, 0, ...).
double SpanOfL2(double l2, double temperature);

// --- the sharp bounds at span s ----------------------------------------------------------------
// tanh(s/4). Concave, so a mean span bounds the mean TV as well.
double TvOfSpan(double span);
// s/(e^s - 1) - 1 + ln((e^s - 1)/s), for KL(p||q) and KL(q||p).
double KlOfSpan(double span);
// s tanh(s/4), for KL(p||q) + KL(q||p).
double JeffreysOfSpan(double span);
// sinh(s/2)^2, for E_q(w - 1)^2 and its mirror.
double Chi2OfSpan(double span);
// 1 - sech(s/4), for H^2 = 1 - sum sqrt(pq).
double HellingerOfSpan(double span);
// s, for |log w| at any token: a supremum, approached but not attained.
double LogRatioOfSpan(double span);
// Renyi divergence of order a > 0: with A = e^{as} - 1, B = e^s - 1,
// [ln((A-B)/((a-1)B)) - a ln(a(A-B)/((a-1)A))]/(a-1); KL at a = 1. Sharp to 1e-6 for s >= 1e-3,
// below that a s^2/8, which is exact as s -> 0; never above s.
double RenyiOfSpan(double span, double order);

// --- textbook forms, for comparison: true, but looser ------------------------------------------
double TvOfLinfTextbook(double linf, double temperature);     // linf/tau: twice the sharp slope
double TvOfLinfExponential(double linf, double temperature);  // (e^{2 linf/tau} - 1)/2, paper (23)
double KlOfSpanHoeffding(double span);                        // s^2/8: exact as s -> 0

// --- between divergences -----------------------------------------------------------------------
// min(sqrt(KL/2), sqrt(1 - e^-KL)) (Pinsker; Bretagnolle-Huber); either direction of KL. Concave,
// so a mean KL bounds the mean TV.
double TvOfKl(double kl);
// E_q|log w| >= TV, the mean over tokens drawn from infer (docs/math.md A.3, converses).
double TvOfMeanAbsLogRatio(double mean);
// KL <= s TV, from E_pD - E_qD <= s TV. Approached only as s -> inf; about half for small s.
double KlOfSpanAndTv(double span, double tv);
// |log w| <= L at every token gives span <= 2 L.
double SpanOfMaxAbsLogRatio(double bound);

// --- the least span that evidence implies; a measured span below it is a bug in the measuring ----
// 4 atanh(TV). A TV measured as 1 may be 1 - 2^-53 rounded: it implies a span of 67, not infinity.
double LeastSpanOfTv(double tv);
// The span at which KlOfSpan reaches kl; never below sqrt(8 KL).
double LeastSpanOfKl(double kl);

}  // namespace kcc
