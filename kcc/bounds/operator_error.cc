#include "kcc/bounds/operator_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/base/check.h"
#include "kcc/bounds/divergence.h"
#include "kcc/bounds/reduction.h"
#include "kcc/bounds/rounding.h"

namespace kcc {

double LinearError(double factor, double abs_dot, double output, double u_store) {
  const double computed = factor * abs_dot;
  return RoundUp(computed + StoreError(output + computed, u_store));
}

double RmsNormRelativeError(int64_t width, double u, double u_store) {
  // First order as in the source; the factor covers the products of the terms while each < 1 %.
  const double first_order = Gamma(width + 2, u) / 2.0 + 3.0 * u + u_store;
  return RoundUp(first_order * (1.0 + 4.0 * first_order));
}

double RopeRelativeError(double position, double frequency, double u_angle, double u,
                         double u_store) {
  const double first_order = u_angle * position * frequency + 2.0 * u + u_store;
  return RoundUp(first_order * (1.0 + 4.0 * (2.0 * u + u_store)));
}

double ScoreError(int64_t head_dim, double u, double abs_dot, double score, double u_store) {
  // One more level for the products, two for the scaling by 1/sqrt(hd), itself rounded.
  const double computed =
      Gamma(head_dim + 3, u) * abs_dot / std::sqrt(static_cast<double>(head_dim));
  return RoundUp(computed + StoreError(score + computed, u_store));
}

double AttentionRelativeError(const AttentionTiling& tiling, double score_range) {
  KCC_CHECK(tiling.keys >= 1);
  const int64_t tile = tiling.tile == 0 ? tiling.keys : std::min(tiling.tile, tiling.keys);
  const int64_t tiles = (tiling.keys + tile - 1) / tile;
  const double kappa = static_cast<double>(tiles + 1) * (tiling.exp_error + 2.0 * tiling.u) +
                       2.0 * tiling.u * score_range;
  const double inner = kappa + Gamma(tile + tiles, tiling.u);
  if (!(inner < 1.0)) return std::numeric_limits<double>::infinity();
  return RoundUp((2.0 * inner + tiling.u) / (1.0 - inner) + tiling.u_probability);
}

double AttentionScoreDriftError(double score_span, double value_range) {
  return RoundUp(TvOfSpan(score_span) * value_range);
}

double GatedRelativeError(double exp_error, double u, double u_store) {
  const double first_order = exp_error + 5.0 * u + u_store;
  return RoundUp(first_order * (1.0 + 4.0 * first_order));
}

double KeyErrorScoreSpan(double abs_query_times_key_error, int64_t head_dim) {
  return RoundUp(2.0 * abs_query_times_key_error / std::sqrt(static_cast<double>(head_dim)));
}

double StoreError(double magnitude, double u_store) {
  return RoundUp(u_store / (1.0 + u_store) * magnitude);
}

}  // namespace kcc
