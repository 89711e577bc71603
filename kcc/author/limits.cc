#include "kcc/author/limits.h"

#include <algorithm>
#include <cmath>

#include "kcc/stats/beta.h"
#include "kcc/stats/binomial.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

using End = SeriesView::End;

// Sums over requests of S^2, S T and T^2 at one end of the evidence.
struct ClusterTotals {
  double requests = 0;
  double squares = 0;
  double cross = 0;
  double token_squares = 0;

  void Add(const ClusterSums& sums) {
    requests += static_cast<double>(sums.requests);
    squares += sums.sum_squares.Round();
    cross += sums.sum_tokens.Round();
    token_squares += static_cast<double>(sums.token_squares);
  }
};

}  // namespace

double StudentUpper(double degrees, double alpha) {
  // P(|T| > t) = I_x(degrees/2, 1/2) at x = degrees/(degrees + t^2).
  const double x = BetaQuantile(degrees / 2, 0.5, 2 * alpha, Tail::kLower);
  return std::sqrt(degrees * (1 - x) / x);
}

std::optional<EvidenceLimit> MeanLimit(const Summary& summary, const Metric& metric,
                                       BoundKind bound, double confidence) {
  const int slice = summary.plan.FindSlice("all");
  if (slice < 0) return {};
  const SeriesView view(summary, static_cast<size_t>(slice),
                        summary.plan.SeriesOf(*metric.quantity, metric.side));
  if (view.count() == 0 || view.clusters() == nullptr) return {};
  const End end = bound == BoundKind::kAtMost ? End::kHigh : End::kLow;
  ClusterTotals totals;
  totals.Add(view.clusters()->point);
  if (!view.clusters()->ends.empty()) {
    totals.Add(view.clusters()->ends[end == End::kLow ? 0 : 1]);
  }
  const double mean = view.Mean(end);
  if (!std::isfinite(mean) || totals.requests < 2) return {};
  const auto tokens = static_cast<double>(view.count());
  const double spread =
      std::max(0.0, totals.squares - 2 * mean * totals.cross + mean * mean * totals.token_squares);
  const double error =
      std::sqrt(totals.requests / (totals.requests - 1) * spread) / tokens * std::sqrt(2.0);
  const double reach = StudentUpper(totals.requests - 1, 1 - confidence) * error;
  EvidenceLimit limit;
  limit.estimate = mean;
  limit.limit = bound == BoundKind::kAtMost ? mean + reach : mean - reach;
  limit.requests = static_cast<int64_t>(totals.requests);
  return limit;
}

int64_t PredictedCount(int64_t seen, double alpha) {
  const auto possible = [&](int64_t y) { return BinomialAtMost(seen, seen + y, 0.5) > alpha; };
  int64_t low = 0;  // possible: P = 1
  int64_t high = 1;
  while (possible(high)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (possible(middle) ? low : high) = middle;
  }
  return low;
}

std::optional<EvidenceLimit> ShareLimit(const Summary& summary, const Metric& metric, double unit,
                                        double confidence) {
  auto limit = MeanLimit(summary, metric, BoundKind::kAtLeast, confidence);
  if (!limit) return {};
  const size_t series = summary.plan.SeriesOf(*metric.quantity, metric.side);
  const auto slice = static_cast<size_t>(summary.plan.FindSlice("all"));
  const SeriesView view(summary, slice, series);
  auto missed = static_cast<int64_t>(view.Below(End::kLow, 1.0).hi);
  const int threshold = summary.plan.FindThreshold(series, 1.0);
  if (threshold >= 0 && view.exact()) {
    missed = static_cast<int64_t>(
        view.clusters()->point.splits[static_cast<size_t>(threshold)].any_below);
  }
  const auto tokens = static_cast<double>(view.count());
  const double miss =
      missed > 0 ? (1 - limit->estimate) * tokens / static_cast<double>(missed) : unit;
  const auto predicted = static_cast<double>(PredictedCount(missed, 1 - confidence));
  limit->limit = std::min(limit->limit, std::max(0.0, 1 - predicted * miss / tokens));
  return limit;
}

std::optional<EvidenceLimit> RequestLimit(const Summary& summary, const Metric& metric,
                                          double exceedance, double confidence) {
  const int slice = summary.plan.FindSlice("all");
  if (slice < 0) return {};
  const auto values = SliceWindowValues(summary, static_cast<size_t>(slice), metric, Window());
  if (!values || values->highs.empty()) return {};
  const auto count = static_cast<int64_t>(values->highs.total());
  const auto rank = QuantileUpperRank(count, 1 - exceedance, 1 - confidence);
  const auto type1 = static_cast<int64_t>(std::ceil(static_cast<double>(count) * (1 - exceedance)));
  EvidenceLimit limit;
  limit.requests = count;
  limit.exact_rank = rank.has_value();
  const auto value_at = [&](int64_t wanted) {
    int64_t seen = 0;
    double edge = 0;
    for (const auto& [bucket, amount] : values->highs.Entries()) {
      edge = Histogram::UpperEdge(bucket);
      seen += static_cast<int64_t>(amount);
      if (seen >= wanted) break;
    }
    return edge;
  };
  limit.estimate = value_at(type1);
  limit.limit = value_at(rank.value_or(count));
  if (!std::isfinite(limit.limit)) return {};
  return limit;
}

}  // namespace kcc
