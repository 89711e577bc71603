#include "kcc/judge/severity.h"

#include <cmath>
#include <limits>

#include "kcc/metric/metric.h"

namespace kcc {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::optional<double> LimitRatio(double part, double whole) {
  if (std::isnan(part) || part < 0 || whole < 0) return {};
  if (whole == 0) return part == 0 ? 0.0 : kNoLimit;
  return part / whole;
}

}  // namespace

std::optional<double> Severity(const ClauseVerdict& clause, const SliceVerdict& slice) {
  if (!clause.hard) {
    if (!slice.exceedance || slice.exceedance->windows == 0) return {};
    return LimitRatio(slice.exceedance->rate(), slice.exceedance->budget);
  }
  if (!slice.value.known()) return {};
  if (clause.bound == BoundKind::kAtMost) return LimitRatio(slice.value.hi, slice.threshold);
  const auto metric = ParseMetric(clause.metric);
  const double most = metric.has_value() ? MetricMax(*metric) : kNoLimit;
  if (std::isfinite(most)) return LimitRatio(most - slice.value.lo, most - slice.threshold);
  return LimitRatio(slice.threshold, slice.value.lo);
}

}  // namespace kcc
