#include "kcc/judge/bet_tests.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/base/strings.h"
#include "kcc/judge/more_requests.h"
#include "kcc/stats/betting.h"
#include "kcc/stats/binomial.h"
#include "kcc/stats/forecast.h"
#include "kcc/stats/multiplicity.h"
#include "kcc/stats/paired.h"
#include "kcc/summary/bets.h"

namespace kcc {
namespace {

using Kind = TrafficFinding::Kind;
constexpr double kInf = std::numeric_limits<double>::infinity();

TrafficFinding Finding(Kind kind, std::string what) {
  TrafficFinding finding;
  finding.kind = kind;
  finding.what = std::move(what);
  return finding;
}

// A test's sums as the summary keeps them, and the bets they are of.
struct KeptBets {
  const BetSums* sums = nullptr;
  BetGrid grid = BetGrid::kFine;
};

KeptBets FindBets(const PlanTest& wanted, size_t slice, const Summary& summary) {
  const int at = summary.plan.FindTest(wanted);
  if (at < 0) return {};
  const PlanTest& row = summary.plan.tests()[static_cast<size_t>(at)];
  const std::string& name = summary.plan.slices()[slice].name;
  if (!std::binary_search(row.slices.begin(), row.slices.end(), name)) return {};
  return {&summary.slices[slice].tests[static_cast<size_t>(at)], row.grid};
}

std::string Weight(double log_e) { return ReadableNumber(std::exp(std::min(log_e, 690.0))); }

std::string InWords(int64_t requests, LogEValues e, bool can_pass, bool can_fail, double alpha) {
  std::string what = "over " + std::to_string(requests) + " requests the evidence ";
  if (can_pass) what += "for the clause weighs " + Weight(e.pass);
  if (can_pass && can_fail) what += " and that ";
  if (can_fail) what += "against it weighs " + Weight(e.fail);
  what += ", where " + ReadableNumber(1 / alpha) + " shows it";
  if (!can_pass) what += "; no sample can certify the mean of an unbounded quantity";
  if (!can_fail) what += "; no sample can refute a lower bound on it";
  return what;
}

// Why tokens weigh little: a request counts by its share of the longest that the contract allows.
std::string LengthsInWords(const PlanTest& test, const SampleCount& samples) {
  constexpr double kFarAbove = 4;
  if (test.tokens_max <= 1 || samples.requests == 0) return {};
  const double mean = static_cast<double>(samples.tokens) / static_cast<double>(samples.requests);
  if (!(mean > 0) || test.tokens_max < kFarAbove * mean) return {};
  return "; assumptions.tokensMax is " + ReadableNumber(test.tokens_max) +
         " and these requests have " + ReadableNumber(mean) +
         " tokens on average: the requests needed grow in proportion to tokensMax, so a bound near "
         "the longest output needs fewer";
}

// The e-values of all tests of a clause as two: for it and against it.
LogEValues Combine(const std::vector<PlanTest>& tests, const std::vector<LogEValues>& values) {
  if (tests[0].truncated) {
    // One direction only, and the average over the caps is an e-value. PASS of "at least" and
    // FAIL of "at most" are the two ways to say that the mean is large.
    std::vector<double> large;
    large.reserve(values.size());
    const bool at_most = tests[0].bound == BoundKind::kAtMost;
    for (const LogEValues& e : values) large.push_back(at_most ? e.fail : e.pass);
    return at_most ? LogEValues{-kInf, LogMeanE(large)} : LogEValues{LogMeanE(large), -kInf};
  }
  // A gap: both signs must pass, either may fail.
  LogEValues both{kInf, -kInf};
  for (const LogEValues& e : values) {
    both.pass = std::min(both.pass, e.pass);
    both.fail = std::max(both.fail, e.fail);
  }
  return both;
}

// A gap must be certified in both directions. They differ in the sum alone, and a larger sum is
// certified less: the direction with the larger one decides.
PairedCounts WorseDirection(int64_t up, int64_t down, int64_t count) {
  return {.up = std::max(up, down), .down = std::min(up, down), .count = count};
}

// Exact tests of rewards that are 0 or rewardMax, from the counts of the worse value: of a mean's
// one test, or of a gap's two signs.
void TestTwoValues(const PlanTest& test, const std::vector<const BetSums*>& sums,
                   const Facts& facts, double alpha, TrafficFinding* finding) {
  const Exceedance worse{sums[0]->sums.ones, sums[0]->sums.count};
  const double limit = TestMean(test);
  if (sums.size() == 1) {
    finding->certified = CertifiesRate(worse, limit, alpha);
    finding->confidence_interval = RateInterval(worse, alpha);
    if (facts.complete()) finding->p_violated = RefutationPValue(worse, limit);
    finding->more_requests.reset();
    const Forecast forecast = ForecastRate(worse, limit, alpha);
    if (forecast.outlook == Outlook::kWouldPass || forecast.outlook == Outlook::kWouldFail) {
      finding->more_requests = forecast.more;
    }
    return;
  }
  const double gap = 2 * limit - 1;  // on the scale of [-1, 1]
  const int64_t up = worse.exceeding;
  const int64_t down = sums[1]->sums.ones;
  // Which test certifies is settled by what was known before the data: their number and the gap.
  if (static_cast<double>(worse.count) * gap < kGapUnitsMin || up + down > worse.count) return;
  finding->certified = CertifiesGap(WorseDirection(up, down, worse.count), gap, alpha);
}

}  // namespace

TrafficFinding TestByBets(const std::vector<PlanTest>& tests, const Facts& facts,
                          const Summary& summary, double alpha, Looks looks) {
  const Reading reading{.once_at = looks == Looks::kOnce ? alpha : 0};
  TrafficFinding finding;
  finding.kind = Kind::kTested;
  const bool truncated = tests[0].truncated;
  const bool at_most = tests[0].bound == BoundKind::kAtMost;
  const bool unbounded_estimate =
      facts.estimate && tests[0].metric.quantity->estimate != SampleEstimate::kWithinRange;
  const bool can_pass = !(truncated && at_most) && !unbounded_estimate;
  const bool can_fail = !(truncated && !at_most);
  std::vector<LogEValues> values;
  std::vector<const BetSums*> kept;
  int64_t requests = 0;
  double slowest = kInf;
  for (const PlanTest& test : tests) {
    const auto [sums, grid] = FindBets(test, *facts.slice, summary);
    if (sums == nullptr) {
      return Finding(
          Kind::kUntestable,
          "the summary was measured without the test over requests that this clause needs; "
          "measure again with this contract");
    }
    if (sums->oversized > 0) {
      return Finding(Kind::kBroken, std::to_string(sums->oversized) +
                                        " requests break assumptions.tokensMax, rewardMax or "
                                        "rewardBinary; state what traffic has");
    }
    const BettingPlan plan = *MakeBettingPlan(TestMean(test), grid);
    values.push_back(Evaluate(plan, sums->sums, reading));
    kept.push_back(sums);
    requests = std::max(requests, sums->sums.count);
    if (truncated || values.back().pass >= slowest) continue;
    // A gap is certified once the slower of its two tests is.
    slowest = values.back().pass;
    const Forecast forecast = ForecastBetting(plan, sums->sums, alpha, alpha, reading);
    finding.more_requests.reset();
    const bool ends = (forecast.outlook == Outlook::kWouldPass && can_pass) ||
                      forecast.outlook == Outlook::kWouldFail;
    if (ends) finding.more_requests = forecast.more;
  }
  LogEValues e = Combine(tests, values);
  if (!can_pass) e.pass = -kInf;
  finding.certified = Rejects(e.pass, alpha);
  // The two tests of a gap share the alarm, so each may use half of the error. Requests that were
  // not measured are in no sum: without them nothing is refuted.
  const double shared = truncated ? 1 : static_cast<double>(tests.size());
  if (facts.unmeasured == 0) finding.p_violated = std::min(1.0, shared * AnytimePValue(e.fail));
  finding.what = InWords(requests, e, can_pass, can_fail, alpha);
  if (!can_pass && !facts.estimate) finding.what += "; " + TheFormByRequest(alpha, looks);
  if (tests[0].two_valued && looks == Looks::kOnce) {
    TestTwoValues(tests[0], kept, facts, alpha, &finding);
  }
  if (can_pass && !finding.certified && finding.p_violated > alpha) {
    finding.what += LengthsInWords(tests[0], facts.samples);
  }
  return finding;
}

TrafficFinding TestPairedFlags(const PairedFlagCounts& flags, double threshold, const Facts& facts,
                               double alpha, Looks looks) {
  // d = infer - train is -1, 0 or 1; X = (d + 1)/2 in [0, 1] is tested against (t + 1)/2, and the
  // same for -d.
  const auto plan = MakeBettingPlan((threshold + 1) / 2);
  if (!plan) return Finding(Kind::kUntestable, "a gap of 1 is always within the threshold");
  const Reading reading{.once_at = looks == Looks::kOnce ? alpha : 0};
  const auto evaluate = [&](uint64_t up, uint64_t down) {
    BettingSums sums;
    const auto add = [&](double for_pass, double for_fail, uint64_t times) {
      BettingSums one;
      one.Add(*plan, *ToUnitValue(for_pass), *ToUnitValue(for_fail));
      one.Repeat(static_cast<int64_t>(times));
      sums.Merge(one);
    };
    add(1, 1, up);
    add(0.5, 0.5, flags.both + flags.neither);
    add(0, 0, down);
    add(1, 0, flags.missing);  // may be anything
    return Evaluate(*plan, sums, reading);
  };
  const LogEValues more = evaluate(flags.infer_only, flags.train_only);
  const LogEValues less = evaluate(flags.train_only, flags.infer_only);
  TrafficFinding finding;
  finding.kind = Kind::kTested;
  const auto whole = [](uint64_t n) { return static_cast<int64_t>(n); };
  const int64_t units = whole(flags.known() + flags.missing);
  // Which test certifies is settled by what was known before the data: their number and the gap.
  if (looks == Looks::kOnce && static_cast<double>(units) * threshold >= kGapUnitsMin) {
    PairedCounts counts = WorseDirection(whole(flags.infer_only), whole(flags.train_only), units);
    counts.up += whole(flags.missing);  // may be anything
    finding.certified = CertifiesGap(counts, threshold, alpha);
  } else {
    finding.certified = Rejects(std::min(more.pass, less.pass), alpha);
  }
  if (facts.unmeasured == 0) {
    finding.p_violated = std::min(1.0, 2 * AnytimePValue(std::max(more.fail, less.fail)));
  }
  finding.what = "of " + std::to_string(flags.known()) + " requests " +
                 std::to_string(flags.infer_only) + " have it on the infer side alone and " +
                 std::to_string(flags.train_only) + " on the train side alone";
  return finding;
}

}  // namespace kcc
