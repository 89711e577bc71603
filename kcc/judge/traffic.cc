#include "kcc/judge/traffic.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/judge/bet_tests.h"
#include "kcc/judge/more_requests.h"
#include "kcc/judge/rate_counts.h"
#include "kcc/stats/betting.h"
#include "kcc/stats/binomial.h"
#include "kcc/stats/forecast.h"

namespace kcc {
namespace {

using Kind = TrafficFinding::Kind;

constexpr char kNeedsTokensMax[] =
    "state assumptions.tokensMax, the longest output of traffic, so that tokens can be tested with "
    "the request as unit";
constexpr char kNeedsRewardMax[] =
    "state assumptions.rewardMax: the mean of an unbounded reward cannot be certified from samples";

bool AtMost(const Clause& clause) { return clause.bound == BoundKind::kAtMost; }

TrafficFinding Untestable(std::string why) {
  TrafficFinding finding;
  finding.what = std::move(why);
  return finding;
}

TrafficFinding Proven(Kind kind, std::string what) {
  TrafficFinding finding;
  finding.kind = kind;
  finding.certified = kind == Kind::kProvenSatisfied;
  finding.what = std::move(what);
  return finding;
}

void TakeForecast(const Forecast& forecast, TrafficFinding* finding) {
  if (forecast.outlook == Outlook::kWouldPass || forecast.outlook == Outlook::kWouldFail) {
    finding->more_requests = forecast.more;
  }
}

// What the exact binomial test finds in a sample whose size was fixed in advance.
void TestOnce(Exceedance worst, Exceedance best, double limit, double alpha,
              TrafficFinding* finding) {
  finding->certified = CertifiesRate(worst, limit, alpha);
  finding->p_violated = RefutationPValue(best, limit);
  // Both ends together keep alpha; a verdict needs one of them only.
  finding->confidence_interval = {RateLowerBound(best, alpha / 2),
                                  RateUpperBound(worst, alpha / 2)};
  TakeForecast(ForecastRate(worst, limit, alpha), finding);
}

// The same by bets, which hold however often they are looked at.
void TestAgain(Exceedance worst, Exceedance best, double limit, double alpha,
               TrafficFinding* finding) {
  finding->confidence_interval = {
      BernoulliConfidenceSequence(best.exceeding, best.count, alpha).lo,
      BernoulliConfidenceSequence(worst.exceeding, worst.count, alpha).hi};
  const auto plan = MakeBettingPlan(limit);
  if (!plan) {  // every share is within 1, and one exceedance of 0 is a proof
    finding->certified = limit >= 0.5 && worst.count > 0;
    finding->p_violated = limit < 0.5 && best.exceeding > 0 ? 0 : 1;
    return;
  }
  finding->certified = Rejects(EvaluateBernoulli(*plan, worst.exceeding, worst.count).pass, alpha);
  finding->p_violated = AnytimePValue(EvaluateBernoulli(*plan, best.exceeding, best.count).fail);
  BettingSums sums;
  sums.Add(*plan, {.value = 1, .complement = 0});
  sums.Repeat(worst.exceeding);
  BettingSums within;
  within.Add(*plan, {.value = 0, .complement = 1});
  within.Repeat(worst.count - worst.exceeding);
  sums.Merge(within);
  TakeForecast(ForecastBetting(*plan, sums, alpha, alpha), finding);
}

// Independent units, each beyond the threshold or not; at most a share `limit` of them may be.
TrafficFinding TestUnits(const UnitCounts& units, double limit, double alpha, Looks looks,
                         std::string_view unit) {
  const auto whole = [](uint64_t n) { return static_cast<int64_t>(n); };
  const Exceedance worst{whole(units.beyond_possible), whole(units.units)};
  const Exceedance best{whole(units.beyond_proven), whole(units.units_possible)};
  TrafficFinding finding;
  finding.kind = Kind::kTested;
  const bool once = looks == Looks::kOnce;
  (once ? TestOnce : TestAgain)(worst, best, limit, alpha, &finding);
  const double most = once ? RateUpperBound(worst, alpha) : finding.confidence_interval.hi;
  finding.what = std::to_string(units.beyond_possible) + " of " + std::to_string(units.units) +
                 " " + std::string(unit) + " lie beyond it, where a share of " +
                 ReadableNumber(limit) + " may; in traffic the share is at most " +
                 ReadableNumber(most) + " with confidence " + ReadableNumber(1 - alpha);
  return finding;
}

std::string CountText(const UnitCounts& units, std::string_view unit) {
  return std::to_string(units.beyond_sure) + " of " + std::to_string(units.units) + " " +
         std::string(unit) + " lie beyond it and none may";
}

// A mean or share whose threshold is the best value there is: every unit must have that value, so
// one that has not is a proof, and no sample shows that none will.
std::optional<TrafficFinding> AtBestPossible(const Clause& clause, const Facts& facts) {
  const Aggregate aggregate = clause.metric.aggregate;
  const bool share = aggregate == Aggregate::kRate || aggregate == Aggregate::kMean ||
                     (aggregate == Aggregate::kNone && facts.units) ||
                     clause.metric.quantity->form == TestForm::kReplayShare;
  const double best = AtMost(clause) ? MetricMin(clause.metric) : MetricMax(clause.metric);
  if (!share || clause.threshold != best) return {};
  const bool seen = facts.units ? facts.units->beyond_sure > 0 : facts.truth == Truth::kFails;
  if (seen && !facts.estimate) {
    return Proven(Kind::kProvenViolated, "a value beyond it was seen and none may be");
  }
  return Untestable("no sample can show that a value beyond " + ShortestNumber(clause.threshold) +
                    " never occurs; a threshold a little off it can be certified");
}

TrafficFinding FindInPopulation(const Clause& clause, const std::vector<PlanTest>& tests,
                                const Facts& facts, const Summary& summary, double alpha,
                                Looks looks) {
  const Quantity& quantity = *clause.metric.quantity;
  switch (quantity.form) {
    case TestForm::kRequestShare:
      if (!facts.units) break;
      return TestUnits(*facts.units, AtMost(clause) ? clause.threshold : 1 - clause.threshold,
                       alpha, looks, "requests");
    case TestForm::kFlagGap:
      return TestPairedFlags(*PairedFlags(clause, summary.slices[*facts.slice]), clause.threshold,
                             facts, alpha, looks);
    case TestForm::kLargest:
      if (facts.truth != Truth::kFails) {
        return Untestable("a maximum cannot be certified from samples");
      }
      return Proven(Kind::kProvenViolated, "a request recorded " + ReadableNumber(facts.value.lo));
    case TestForm::kTokenShare:
    case TestForm::kMeanGap:
      if (!tests.empty()) return TestByBets(tests, facts, summary, alpha, looks);
      if (quantity.bounded_by == BoundedBy::kRewardMax) return Untestable(kNeedsRewardMax);
      if (quantity.observation == Observation::kToken) return Untestable(kNeedsTokensMax);
      break;
    case TestForm::kByAggregate:
    case TestForm::kReplayShare:
    case TestForm::kNone:
      break;
  }
  return Untestable("no test of " + std::string(quantity.id) +
                    " about traffic is known; judge it about the evaluation set");
}

TrafficFinding FindExtreme(const Clause& clause, const UnitCounts& units) {
  // No value may lie beyond a maximum at most, or a minimum at least; else one within suffices.
  const bool forbids = (clause.metric.aggregate == Aggregate::kMax) == AtMost(clause);
  if (forbids && units.beyond_sure > 0) {
    return Proven(Kind::kProvenViolated, CountText(units, "values"));
  }
  if (!forbids && units.beyond_possible < units.units) {
    return Proven(Kind::kProvenSatisfied, "a value within it was seen");
  }
  if (!forbids) return Untestable("no value within it was seen yet");
  const Metric instead{clause.metric.quantity, AtMost(clause) ? Aggregate::kP999 : Aggregate::kP001,
                       clause.metric.side};
  return Untestable("an extreme value cannot be certified from samples; " + MetricName(instead) +
                    ", or a soft clause with an exceedance, can be");
}

TrafficFinding FindInSeries(const Clause& clause, const Assumptions& assumptions,
                            const std::vector<PlanTest>& tests, const Facts& facts,
                            const Summary& summary, double alpha, Looks looks) {
  const Aggregate aggregate = clause.metric.aggregate;
  const bool at_most = AtMost(clause);
  const bool of_tokens = clause.metric.quantity->level == QuantityLevel::kToken;
  if (aggregate == Aggregate::kMax || aggregate == Aggregate::kMin) {
    return FindExtreme(clause, *facts.units);
  }
  if (facts.units && !of_tokens) {
    const int ppm = PercentilePpm(aggregate);
    const double limit = ppm >= 0  ? (at_most ? 1000000 - ppm : ppm) / 1e6
                         : at_most ? clause.threshold
                                   : 1 - clause.threshold;
    return TestUnits(*facts.units, limit, alpha, looks, "requests");
  }
  if (!tests.empty()) return TestByBets(tests, facts, summary, alpha, looks);
  const bool unbounded = aggregate == Aggregate::kMean && at_most &&
                         std::isinf(MetricMax(clause.metric)) && !facts.estimate;
  if (of_tokens && !assumptions.tokens_max && unbounded) {
    // A test could only refute it, so what to state comes second.
    return Untestable("no sample can certify the mean of an unbounded quantity; " +
                      TheFormByRequest(alpha, looks) +
                      "; a sample can refute it where "
                      "assumptions.tokensMax is stated");
  }
  if (of_tokens && !assumptions.tokens_max) return Untestable(kNeedsTokensMax);
  if (clause.metric.quantity->bounded_by == BoundedBy::kRewardMax) {
    return Untestable(kNeedsRewardMax);
  }
  const Metric instead{clause.metric.quantity, at_most ? Aggregate::kP99 : Aggregate::kP01,
                       clause.metric.side};
  return Untestable("the mean of an unbounded quantity cannot be tested from samples; " +
                    MetricName(instead) + ", or a soft clause by request, can be");
}

TrafficFinding FindInWindows(const Clause& clause, const Facts& facts, double alpha, Looks looks) {
  if (clause.window.kind == Window::Kind::kTime) {
    return Untestable(
        "windows of time follow one another and are not independent; a window by requests can be "
        "certified");
  }
  // The first and the last window may lack requests that came before or are still to come; they are
  // not like the others, and are left out.
  const bool by_request = clause.window.kind == Window::Kind::kRequest;
  TrafficFinding finding = TestUnits(*facts.traffic_windows, clause.exceedance, alpha, looks,
                                     by_request       ? "requests"
                                     : facts.gaps > 0 ? "windows"
                                                      : "complete windows");
  if (facts.gaps > 0) {
    finding.what += "; " + std::to_string(facts.gaps) +
                    " of these windows lack requests between the first and the last one, and count "
                    "as beyond it";
  }
  if (finding.more_requests) {
    const int64_t most = kForecastUnitsMax / clause.window.size;
    *finding.more_requests = std::min(*finding.more_requests, most) * clause.window.size;
  }
  return finding;
}

}  // namespace

TrafficFinding FindInTraffic(const Clause& clause, const Assumptions& assumptions,
                             const std::vector<PlanTest>& tests, const Facts& facts,
                             const Summary& summary, double alpha, Looks looks) {
  if (!clause.hard()) return FindInWindows(clause, facts, alpha, looks);
  if (auto finding = AtBestPossible(clause, facts)) return *std::move(finding);
  if (clause.metric.quantity->level == QuantityLevel::kPopulation) {
    return FindInPopulation(clause, tests, facts, summary, alpha, looks);
  }
  return FindInSeries(clause, assumptions, tests, facts, summary, alpha, looks);
}

}  // namespace kcc
