#include "kcc/stats/mean_bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kcc/base/check.h"

namespace kcc {
namespace {

double MaurerPontilRadius(const SampleMoments& sample, double alpha) {
  const double n = static_cast<double>(sample.count);
  const double log_term = std::log(2 / alpha);
  return std::sqrt(2 * sample.variance * log_term / n) + 7 * log_term / (3 * (n - 1));
}

// Lower bounds of the log wealth of the mixture, for one m after the other of a bisection. Most of
// the work is the logarithms of the stakes, which are computed only where the stakes change: up to
// m = 1/2 they are the same (FineStakes), and so they are for neighbours at the end of a bisection.
class WealthBySums {
 public:
  // `m` as the stakes see it; sums of y and y^2 over n values.
  double Log(double m, double first, double second, double n) {
    if (!(m <= 0.5 && held_ <= 0.5)) Hold(m);
    second = std::max(second, first * first / n);  // less is a rounding error
    double sum = 0;
    for (size_t k = 0; k < kBets; ++k) {
      const double log_wealth = stakes_[k] * first + curves_[k] * second;
      sum += grid_.weights[k] * std::exp(std::min(600.0, log_wealth));
    }
    return std::log(sum);
  }

 private:
  void Hold(double m) {
    held_ = m;
    const BetStakes grid = FineStakes(m);
    if (grid.stakes == grid_.stakes) return;
    grid_ = grid;
    for (size_t k = 0; k < kBets; ++k) {
      stakes_[k] = kFailStakeMax * grid.stakes[k];
      curves_[k] = std::log1p(-stakes_[k]) + stakes_[k];
    }
  }

  double held_ = 1;      // the last m given to Hold; 1: none
  BetStakes grid_ = {};  // of held_
  std::array<double, kBets> stakes_ = {}, curves_ = {};
};

// The sum of (x - m)^2, rounded up.
double SquaresAround(const ValueSums& seen, double m) {
  const double n = static_cast<double>(seen.count);
  const double rounding = 1e-14 * (n * m * m + seen.squares);
  return seen.squares - 2 * m * seen.sum + n * m * m + rounding;
}

}  // namespace

double MeanUpperBySums(const ValueSums& seen, double alpha) {
  if (seen.count < 1) return 1;
  const double n = static_cast<double>(seen.count);
  WealthBySums wealth;
  const auto rejected = [&](double m) {
    const double first = (n * m - seen.sum) / (1 - m);
    const double second = SquaresAround(seen, m) / ((1 - m) * (1 - m));
    return Rejects(wealth.Log(m, first, second, n), alpha);
  };
  double low = std::max(seen.sum / n, kBettingThresholdMin);
  double high = 1;  // the least m known to be rejected, or 1
  for (int step = 0; step < 60; ++step) {
    const double mid = std::sqrt(low * high);
    if (mid <= low || mid >= high) break;
    (rejected(mid) ? high : low) = mid;
  }
  return high;
}

double MeanLowerBySums(const ValueSums& seen, double alpha) {
  if (seen.count < 1) return 0;
  const double n = static_cast<double>(seen.count);
  WealthBySums wealth;
  const auto rejected = [&](double m) {  // "mean <= m": the same of 1 - x, so y = (x-m)/m
    const double first = (seen.sum - n * m) / m;
    const double second = SquaresAround(seen, m) / (m * m);
    return Rejects(wealth.Log(1 - m, first, second, n), alpha);
  };
  double low = 0;  // the largest m known to be rejected, or 0
  double high = seen.sum / n;
  for (int step = 0; step < 60; ++step) {
    const double mid = low > 0 ? std::sqrt(low * high) : high / 16;
    if (mid <= kBettingThresholdMin || mid <= low || mid >= high) break;
    (rejected(mid) ? low : high) = mid;
  }
  return low;
}

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

std::optional<UnitValue> TruncatedObservation(double x, double cap) {
  KCC_CHECK(cap > 0 && std::isfinite(cap));
  if (!(x >= 0)) return std::nullopt;
  return ToUnitValue(std::min(x, cap) / cap);
}

std::array<double, kTruncationCaps> TruncationCaps(double threshold) {
  KCC_CHECK(threshold > 0 && std::isfinite(threshold));
  return {4 * threshold, 64 * threshold, 1024 * threshold};
}

}  // namespace kcc
