// How many more requests would settle an undecided clause, if they look like those already seen.
//
// For the reader of an *inconclusive* verdict, not a test: at the forecast size the chance of a
// decision is roughly even, since the observed rate is itself uncertain.
#pragma once

#include <cstdint>

#include "kcc/stats/betting.h"
#include "kcc/stats/binomial.h"

namespace kcc {

// No forecast beyond this many units: nobody would wait for them.
inline constexpr int64_t kForecastUnitsMax = 1'000'000'000'000;

enum class Outlook : uint8_t {
  kSettled,     // the data decide already
  kWouldPass,   // `more` further units would certify
  kWouldFail,   // `more` further units would refute
  kAtBoundary,  // the observed value sits at the threshold: no amount is in sight
  kNeverPass,   // this form of clause cannot be certified by sampling (a rate of 0)
};

struct Forecast {
  Outlook outlook = Outlook::kSettled;
  int64_t more = 0;  // additional units; 0 unless kWouldPass or kWouldFail

  bool operator==(const Forecast&) const = default;
};

// For the exact test of binomial.h. Without data the forecast assumes no exceedance, so it is the
// least sample that can certify. Precondition: 0 <= eps <= 1, 0 < alpha < 1/2.
Forecast ForecastRate(Exceedance seen, double eps, double alpha);

// For the sequential tests of betting.h: every bet's log wealth is extended in proportion. Without
// data it assumes observations of 0. `alpha_fail` may be smaller than `alpha_pass` where many
// clauses share the alarm. `reading` is the one that decides.
Forecast ForecastBetting(const BettingPlan& plan, const BettingSums& sums, double alpha_pass,
                         double alpha_fail, Reading reading = {});

}  // namespace kcc
