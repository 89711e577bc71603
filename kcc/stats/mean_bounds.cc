#include "kcc/stats/mean_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kcc/base/check.h"

namespace kcc {
namespace {

double MaurerPontilRadius(const SampleMoments& sample, double alpha) {
  const double n = static_cast<double>(sample.count);
  const double log_term = std::log(2 / alpha);
  return std::sqrt(2 * sample.variance * log_term / n) + 7 * log_term / (3 * (n - 1));
}

}  // namespace

SampleMoments MomentsOf(std::span<const double> values) {
  SampleMoments moments;
  double squares = 0;
  for (const double v : values) {  // Welford
    ++moments.count;
    const double delta = v - moments.mean;
    moments.mean += delta / static_cast<double>(moments.count);
    squares += delta * (v - moments.mean);
  }
  if (moments.count > 1) moments.variance = squares / static_cast<double>(moments.count - 1);
  return moments;
}

double MeanUpperMaurerPontil(const SampleMoments& sample, double alpha) {
  if (sample.count < 2) return 1;
  return std::min(1.0, sample.mean + MaurerPontilRadius(sample, alpha));
}

double MeanLowerMaurerPontil(const SampleMoments& sample, double alpha) {
  if (sample.count < 2) return 0;
  return std::max(0.0, sample.mean - MaurerPontilRadius(sample, alpha));
}

void TokenRateSums::Add(double bad, double tokens) {
  ++clusters;
  x += bad;
  t += tokens;
  xx += bad * bad;
  xt += bad * tokens;
  tt += tokens * tokens;
}

void TokenRateSums::Merge(const TokenRateSums& other) {
  clusters += other.clusters;
  x += other.x;
  t += other.t;
  xx += other.xx;
  xt += other.xt;
  tt += other.tt;
}

std::optional<ClusterEstimate> EstimateClusters(const TokenRateSums& sums) {
  if (sums.clusters < 2 || !(sums.t > 0)) return std::nullopt;
  const double clusters = static_cast<double>(sums.clusters);
  ClusterEstimate estimate;
  estimate.rate = sums.x / sums.t;
  const double residual =
      sums.xx - 2 * estimate.rate * sums.xt + estimate.rate * estimate.rate * sums.tt;
  estimate.variance = clusters / (clusters - 1) * std::max(0.0, residual) / (sums.t * sums.t);
  const double independent = estimate.rate * (1 - estimate.rate) / sums.t;
  if (independent > 0) estimate.design_effect = estimate.variance / independent;
  const double mean_tokens = sums.t / clusters;
  if (mean_tokens > 1) {
    estimate.icc = std::clamp((estimate.design_effect - 1) / (mean_tokens - 1), 0.0, 1.0);
  }
  return estimate;
}

double EffectiveTokens(double tokens, double mean_tokens_per_request, double icc) {
  return tokens / (1 + std::max(0.0, mean_tokens_per_request - 1) * icc);
}

std::optional<UnitValue> TruncatedObservation(double x, double cap) {
  KCC_CHECK(cap > 0 && std::isfinite(cap));
  if (!(x >= 0)) return std::nullopt;
  return ToUnitValue(std::min(x, cap) / cap);
}

std::array<double, kTruncationCaps> TruncationCaps(double threshold) {
  KCC_CHECK(threshold > 0 && std::isfinite(threshold));
  return {4 * threshold, 64 * threshold, 1024 * threshold};
}

std::optional<double> MeanLowerByTruncation(std::span<const double> values,
                                            std::span<const double> caps, double alpha) {
  double best = 0;
  std::vector<WeightedValue> truncated;
  truncated.reserve(values.size());
  for (const double cap : caps) {
    if (!(cap > 0) || !std::isfinite(cap)) return std::nullopt;
    truncated.clear();
    for (const double value : values) {
      const auto x = TruncatedObservation(value, cap);
      if (!x) return std::nullopt;
      truncated.push_back({.value = *x, .count = 1});
    }
    const double level = alpha / static_cast<double>(caps.size());
    best = std::max(best, cap * MeanLowerSequence(truncated, level));
  }
  return best;
}

}  // namespace kcc
