// Importance weights w = p/q at span s: how far the weight phi(w) that an RL pipeline puts on a
// sampled token lies from w itself (docs/math.md A.3 hockey-stick rows, A.7).
//
// Every pair of span s has w in some [m, m e^s] with E_q w = 1, and nothing else constrains it, so
// sup E_q g(w) is the upper concave envelope of g at 1: two values of w suffice, also where g is
// not convex. The suprema below are those envelopes in closed form, rounded outward.
#pragma once

namespace kcc {

// What a pipeline does with a token's weight; a and c are the range's ends.
enum class Correction {
  kNone,      // phi = 1
  kTruncate,  // min(w, c)
  kClip,      // min(max(w, a), c)
  kMask,      // w inside [a, c], 0 outside (IcePop)
  kFilter,    // 1 inside [a, c], 0 outside: rejection, a different estimator from clipping
  kPpo,       // PPO's surrogate gradient: w, but 0 where A > 0 and w > c, or A < 0 and w < a
  kFull,      // w: importance sampling proper
};

struct CorrectionRange {
  double low = 1;   // a in (0, 1]; PPO's 1 - eps
  double high = 1;  // c >= 1; PPO's 1 + eps
};

// sup E_q(w - c)_+ for c >= 1: (e^{s/2} - sqrt c)^2 / (e^s - 1), 0 from c = e^s on; TV at c = 1.
double ExcessAboveOfSpan(double span, double c);
// sup E_q(a - w)_+ for 0 < a <= 1: a (e^{s/2} - a^{-1/2})^2 / (e^s - 1), 0 up to a = e^-s.
double ExcessBelowOfSpan(double span, double a);

// sup E_q|w - phi(w)| over all pairs of span at most s. Rises with the span, and for all but
// kFilter falls as the range widens.
//   kNone     2 tanh(s/4)
//   kTruncate ExcessAbove(c)
//   kClip     max(ExcessAbove(c), ExcessBelow(a), a - 1 + (a+c)(y-1)^2/(e^s-1)),
//             y = sqrt(2 e^s/(a+c)): both ends active; never above the sum of the two rows
//   kMask     sup P_p(w outside [a, c]): 1 for s > ln(c/a), else the larger of
//             (1 - c e^-s)/(1 - e^-s) and (a e^s - 1)/(e^s - 1); 0 while s <= min(ln c, -ln a)
//   kFilter   the larger of finitely many two-point cases (weights.cc)
//   kPpo      as kMask: the signs of A may always be the worst
//   kFull     0
// All are suprema; those of kMask, kPpo and kFilter are approached but not attained.
double WeightGapOfSpan(double span, Correction correction, CorrectionRange range);

// |w - phi(w)| of one token sampled from infer: its mean estimates E_q|w - phi(w)|, the measured
// counterpart of WeightGapOfSpan. `advantage` matters to kPpo only, and only by its sign.
double WeightGap(double log_ratio, Correction correction, CorrectionRange range, double advantage);

}  // namespace kcc
