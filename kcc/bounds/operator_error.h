// How far one operator's output may lie from exact arithmetic on its own inputs (docs/math.md D.3).
//
// Local bounds: nothing is propagated. Arguments are magnitudes of that operator's actual inputs,
// so a conformity check can evaluate them element by element; envelope.h feeds them norms instead.
// u is the unit roundoff of the arithmetic, u_store that of the stored result (0: not rounded).
#pragma once

#include <cstdint>

namespace kcc {

// factor * sum|W||x| and the rounding of what is stored; factor from ReductionFactor().
double LinearError(double factor, double abs_dot, double output, double u_store);

// Relative: gamma_{d+2}/2 + 3u + u_store, for x / sqrt(mean x^2 + eps) * gain.
double RmsNormRelativeError(int64_t width, double u, double u_store);

// Relative to the pair's norm: u_angle pos omega + 2u + u_store. Angles in bf16 destroy long
// contexts (u pos >> 1).
double RopeRelativeError(double position, double frequency, double u_angle, double u,
                         double u_store);

// gamma_{hd} sum|q||k|/sqrt(hd) + rounding of the score.
double ScoreError(int64_t head_dim, double u, double abs_dot, double score, double u_store);

// Softmax-weighted sums with online softmax over tiles of any size.
struct AttentionTiling {
  int64_t keys = 0;
  int64_t tile = 0;          // keys a tile; 0: all at once
  double u = 0;              // of the arithmetic
  double exp_error = 0;      // relative error of the exponential
  double u_probability = 0;  // p cast before the product with v (bf16: 2^-8)
};
// Times sum_j p_j|v_j|: [2(kappa + gamma_h) + u]/(1 - kappa - gamma_h) + u_probability, with
// kappa = (N+1)(exp_error + 2u) + 2u range(s), h = tile + N for N tiles; +inf where vacuous.
double AttentionRelativeError(const AttentionTiling& tiling, double score_range);
// Scores off by a function of span S: tanh(S/4) (max v - min v) per coordinate.
double AttentionScoreDriftError(double score_span, double value_range);

// |silu'| <= 1.0999 (at x = 2.3994).
inline constexpr double kSiluSlopeMax = 1.0999;
// Relative error of silu(a) * b: the exponential's, and five roundings.
double GatedRelativeError(double exp_error, double u, double u_store);

// A quantised KV cache: value errors average under p; key errors |dk| move the scores by a span.
double KeyErrorScoreSpan(double abs_query_times_key_error, int64_t head_dim);

// Storing a value of this magnitude: u/(1+u) |z|. For bf16 logits 16 <= |z| < 32: at most .0625.
double StoreError(double magnitude, double u_store);

}  // namespace kcc
