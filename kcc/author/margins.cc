#include "kcc/author/margins.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/summary/series.h"

namespace kcc {

std::optional<MarginLimit> SpanFromMargins(const Summary& summary, double share) {
  const int slice = summary.plan.FindSlice("all");
  const std::optional<size_t> series = FindSeries("train_margin");
  if (slice < 0 || !series) return {};
  const SeriesView view(summary, static_cast<size_t>(slice), *series);
  if (view.count() == 0) return {};
  MarginLimit limit;
  limit.tokens = view.count() + view.missing();
  limit.in_doubt = view.missing();
  const double allowed = share * static_cast<double>(limit.tokens);
  if (static_cast<double>(limit.in_doubt) > allowed) return limit;
  // Lists give an interval for a margin; its low end is the one that a drift may overcome. A bucket
  // is let in whole or not at all, and a span just below its lower edge leaves all of it certain.
  limit.span = std::numeric_limits<double>::infinity();
  for (const auto& [bucket, count] : view.stream(SeriesView::End::kLow).histogram.Entries()) {
    if (static_cast<double>(limit.in_doubt + count) > allowed) {
      limit.span = std::max(0.0, std::nextafter(Histogram::LowerEdge(bucket), 0.0));
      break;
    }
    limit.in_doubt += count;
  }
  return limit;
}

std::optional<double> SpanPercentile(const Summary& summary, double share) {
  const int slice = summary.plan.FindSlice("all");
  const std::optional<size_t> series = FindSeries("logit_span");
  if (slice < 0 || !series) return {};
  const SeriesView view(summary, static_cast<size_t>(slice), *series);
  if (view.count() == 0 || view.missing() > 0) return {};
  constexpr double kPartsPerMillion = 1e6;
  const auto ppm = static_cast<int>(std::lround((1 - share) * kPartsPerMillion));
  const double span = view.Quantile(SeriesView::End::kHigh, ppm).hi;
  if (!std::isfinite(span)) return {};
  return span;
}

}  // namespace kcc
