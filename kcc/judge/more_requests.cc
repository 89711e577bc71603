// Tokens of one request are not independent, so a clause about tokens is tested by bets that must
// allow for requests of any length up to tokensMax (docs/math.md C.3b): hundreds of thousands of
// requests where the longest is long. A soft clause asks of each request whether it lies beyond the
// threshold. That is a share of independent units, for which a few hundred clean ones are enough,
// unless its budget is far below one percent.
#include "kcc/judge/more_requests.h"

#include <array>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/stats/betting.h"
#include "kcc/stats/binomial.h"
#include "kcc/stats/forecast.h"

namespace kcc {
namespace {

// The budget that contracts ask for most; any other scales the number.
constexpr double kBudget = 0.01;

// With two digits: a forecast is worth no more.
std::string TimeText(double seconds) {
  struct Unit {
    double seconds;
    const char* name;
  };
  constexpr std::array<Unit, 5> kUnits = {{{365.25 * 86400, "years"},
                                           {86400, "days"},
                                           {3600, "hours"},
                                           {60, "minutes"},
                                           {1, "seconds"}}};
  for (const Unit& unit : kUnits) {
    if (seconds < 2 * unit.seconds && unit.seconds > 1) continue;
    const double count = seconds / unit.seconds;
    const double step = std::pow(10.0, std::floor(std::log10(std::max(count, 1.0))) - 1);
    return ReadableNumber(std::round(count / step) * step) + " " + unit.name;
  }
  return {};
}

// Requests a second; 0: not known.
double RateOf(const SliceStats& slice) {
  const SidePopulation& infer = slice.population.sides[static_cast<size_t>(Side::kInfer)];
  if (infer.timed < 2 || infer.untimed > 0) return 0;
  const double seconds = (infer.last_end_ms - infer.first_start_ms) / 1000;
  return seconds > 0 ? static_cast<double>(infer.timed) / seconds : 0;
}

// The least sample that certifies a share, none of it beyond. None: no number does.
std::optional<int64_t> CleanRequests(double budget, double alpha, Looks looks) {
  Forecast forecast;
  if (looks == Looks::kOnce) {
    forecast = ForecastRate({0, 0}, budget, alpha);
  } else {
    const auto plan = MakeBettingPlan(budget);
    if (!plan) return std::nullopt;
    forecast = ForecastBetting(*plan, {}, alpha, alpha);
  }
  if (forecast.outlook != Outlook::kWouldPass) return std::nullopt;
  return forecast.more;
}

bool IsOfTokens(const Clause& clause) {
  const Quantity& quantity = *clause.metric.quantity;
  return quantity.level == QuantityLevel::kToken || quantity.observation == Observation::kToken;
}

// The share of tokens that a clause about them lets lie beyond; none: it is not about a share.
std::optional<double> ShareOfTokens(const Clause& clause) {
  const bool at_most = clause.bound == BoundKind::kAtMost;
  const int ppm = PercentilePpm(clause.metric.aggregate);
  if (ppm >= 0) return (at_most ? 1000000 - ppm : ppm) / 1e6;
  const bool share = clause.metric.aggregate == Aggregate::kRate ||
                     clause.metric.quantity->form == TestForm::kTokenShare;
  if (!share) return std::nullopt;
  return at_most ? clause.threshold : 1 - clause.threshold;
}

// Whether some requests of the evidence surely lie beyond, each alone: where a request of this
// length may have no token beyond and one was seen. The form by request is the stricter one then.
bool RequestsLieBeyond(const Clause& clause, const Facts& facts) {
  const std::optional<double> share = ShareOfTokens(clause);
  if (!share || facts.samples.requests == 0) return false;
  const double tokens =
      static_cast<double>(facts.samples.tokens) / static_cast<double>(facts.samples.requests);
  const bool at_most = clause.bound == BoundKind::kAtMost;
  const bool seen = facts.units ? facts.units->beyond_sure > 0
                                : (at_most ? facts.value.lo > 0 : facts.value.hi < 1);
  return seen && *share * tokens < 1;
}

// The same clause with the budget that contracts ask for most, where its own is smaller.
std::string WithAWiderBudget(const Clause& clause, const Facts& facts, int64_t more, double alpha,
                             Looks looks) {
  const bool by_request = clause.window.kind == Window::Kind::kRequest;
  if (!by_request || clause.exceedance >= kBudget || looks != Looks::kOnce) return {};
  if (!facts.traffic_windows) return {};
  const UnitCounts& seen = *facts.traffic_windows;
  const Forecast wider =
      ForecastRate({static_cast<int64_t>(seen.beyond_possible), static_cast<int64_t>(seen.units)},
                   kBudget, alpha);
  const bool settled = wider.outlook == Outlook::kSettled;
  if (settled &&
      !CertifiesRate({static_cast<int64_t>(seen.beyond_possible), static_cast<int64_t>(seen.units)},
                     kBudget, alpha)) {
    return {};
  }
  if (!settled && wider.outlook != Outlook::kWouldPass) return {};
  if (wider.more >= more) return {};
  return "; 'exceedance: 1%' promises less and is decided sooner, " +
         (settled ? std::string("by this evidence")
                  : "with about " + std::to_string(wider.more) + " more");
}

}  // namespace

std::string TheFormByRequest(double alpha, Looks looks) {
  const auto clean = CleanRequests(kBudget, alpha, looks);
  if (!clean) return {};
  return std::to_string(*clean) +
         " requests, none of them beyond the threshold, certify the clause with 'exceedance: 1%, "
         "window: request'";
}

std::string WhatMoreRequestsMean(const Clause& clause, const Facts& facts, const SliceStats& slice,
                                 int64_t more, double alpha, Looks looks) {
  std::string text;
  if (const double rate = RateOf(slice); rate > 0) {
    text = ", " + TimeText(static_cast<double>(more) / rate) + " at the rate of this evidence (" +
           ReadableNumber(rate) + " requests a second)";
  }
  if (!clause.hard()) return text + WithAWiderBudget(clause, facts, more, alpha, looks);
  if (!IsOfTokens(clause) || RequestsLieBeyond(clause, facts)) return text;
  const auto clean = CleanRequests(kBudget, alpha, looks);
  if (!clean || *clean >= more) return text;
  return text + "; by request it is decided sooner: " + TheFormByRequest(alpha, looks);
}

}  // namespace kcc
