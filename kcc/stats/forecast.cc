#include "kcc/stats/forecast.h"

#include <cmath>

#include "kcc/base/check.h"
#include "kcc/stats/beta.h"

namespace kcc {
namespace {

// The least size in (seen, kForecastUnitsMax] at which `decides` holds, for a predicate that stays
// true once it is true; 0 where there is none.
template <class Predicate>
int64_t LeastSize(int64_t seen, Predicate decides) {
  int64_t low = seen;
  int64_t high = seen < 1 ? 1 : seen * 2;
  while (!decides(high)) {
    if (high >= kForecastUnitsMax) return 0;
    low = high;
    high = high > kForecastUnitsMax / 2 ? kForecastUnitsMax : high * 2;
  }
  while (high - low > 1) {
    const int64_t mid = low + (high - low) / 2;
    (decides(mid) ? high : low) = mid;
  }
  return high;
}

Forecast Found(Outlook outlook, int64_t size, int64_t seen) {
  if (size == 0) return {.outlook = Outlook::kAtBoundary};
  return {.outlook = outlook, .more = size - seen};
}

}  // namespace

Forecast ForecastRate(Exceedance seen, double eps, double alpha) {
  if (DecideRate(seen, eps, alpha) != RateDecision::kUndecided) return {};
  if (eps == 0) return {.outlook = Outlook::kNeverPass};
  if (seen.count > kForecastUnitsMax / 2) return {.outlook = Outlook::kAtBoundary};
  const double rate =
      seen.count == 0 ? 0 : static_cast<double>(seen.exceeding) / static_cast<double>(seen.count);
  // Expected exceedances are not integers; the beta tails carry the binomial test over to them.
  if (rate < eps) {
    const int64_t size = LeastSize(seen.count, [&](int64_t n) {
      const double x = rate * static_cast<double>(n);
      return IncompleteBeta(x + 1, static_cast<double>(n) - x, eps).upper <= alpha;
    });
    return Found(Outlook::kWouldPass, size, seen.count);
  }
  if (rate > eps) {
    const int64_t size = LeastSize(seen.count, [&](int64_t n) {
      const double x = rate * static_cast<double>(n);
      return IncompleteBeta(x, static_cast<double>(n) - x + 1, eps).lower <= alpha;
    });
    return Found(Outlook::kWouldFail, size, seen.count);
  }
  return {.outlook = Outlook::kAtBoundary};
}

Forecast ForecastBetting(const BettingPlan& plan, const BettingSums& sums, double alpha_pass,
                         double alpha_fail, Reading reading) {
  const LogEValues now = Evaluate(plan, sums, reading);
  if (Rejects(now.pass, alpha_pass) || Rejects(now.fail, alpha_fail)) return {};
  if (sums.count > kForecastUnitsMax / 2) return {.outlook = Outlook::kAtBoundary};
  BettingSums unit = sums;
  if (unit.count == 0) unit.Add(plan, {.value = 0, .complement = 1});
  const auto grown = [&](int64_t n) {
    reading.scale = static_cast<double>(n) / static_cast<double>(unit.count);
    return reading;
  };
  const int64_t pass = LeastSize(
      sums.count, [&](int64_t n) { return Rejects(LogEPass(plan, unit, grown(n)), alpha_pass); });
  const int64_t fail = LeastSize(
      sums.count, [&](int64_t n) { return Rejects(LogEFail(plan, unit, grown(n)), alpha_fail); });
  if (pass != 0 && (fail == 0 || pass <= fail)) {
    return Found(Outlook::kWouldPass, pass, sums.count);
  }
  return Found(Outlook::kWouldFail, fail, sums.count);
}

}  // namespace kcc
