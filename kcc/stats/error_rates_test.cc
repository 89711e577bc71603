// Error rates as a statistical test with fixed seeds; bench/stats_error_rates.cc runs more of it.
#include "kcc/stats/error_rates.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

constexpr double kAlpha = 0.05;

void ExpectKeepsAlpha(const char* test, const Calls& calls) {
  EXPECT_LE(calls.SatisfiedShare(), ErrorBound(kAlpha, calls.runs)) << test << ": satisfied";
  EXPECT_LE(calls.ViolatedShare(), ErrorBound(kAlpha, calls.runs)) << test << ": violated";
}

TEST(ErrorRates, CorrelatedTokensAtTheThresholdAreMiscalledInAtMostAlpha) {
  for (const double icc : {0.0, 0.3, 0.9}) {
    ClusterExperiment e;
    e.truth.icc = icc;
    e.any_clause = RateOfAnyBad(e.truth);
    e.requests = 100;
    e.runs = 2000;
    e.seed = 501;
    SCOPED_TRACE(testing::Message() << "seed " << e.seed << " icc " << icc);
    const ClusterCalls calls = RunClusters(e);
    ExpectKeepsAlpha("ratio e-test", calls.token_ratio);
    ExpectKeepsAlpha("requests as units", calls.request_exact);
    ExpectKeepsAlpha("mean by betting", calls.mean_betting);
    ExpectKeepsAlpha("mean by Maurer-Pontil", calls.mean_bernstein);
    // The experiment can see the error: ignoring the correlation breaks the promise.
    if (icc >= 0.3) {
      EXPECT_GT(calls.token_exact.SatisfiedShare(), 0.25);
      EXPECT_GT(calls.token_exact.ViolatedShare(), 0.20);
    }
  }
}

TEST(ErrorRates, LongRequestsBeingWorseDoesNotFoolTheRatioTest) {
  ClusterExperiment e;
  e.truth.icc = 0.3;
  e.truth.worse_when_longer = true;
  e.requests = 100;
  e.runs = 2000;
  e.seed = 511;
  SCOPED_TRACE(testing::Message() << "seed " << e.seed);
  ExpectKeepsAlpha("ratio e-test", RunClusters(e).token_ratio);
}

TEST(ErrorRates, RatioTestHasPower) {
  ClusterExperiment e;
  e.truth.icc = 0.3;
  e.truth.rate = e.rate_clause / 4;
  e.requests = 400;
  e.runs = 200;
  e.seed = 521;
  SCOPED_TRACE(testing::Message() << "seed " << e.seed);
  EXPECT_GT(RunClusters(e).token_ratio.SatisfiedShare(), 0.95);
  e.truth.rate = e.rate_clause * 2;
  EXPECT_GT(RunClusters(e).token_ratio.ViolatedShare(), 0.95);
}

TEST(Peeking, TenThousandLooksKeepAlphaWhereARepeatedZTestDoesNot) {
  constexpr int64_t kLooks = 10000;
  constexpr int64_t kRuns = 4000;
  constexpr double kRate = 0.05;
  constexpr uint64_t kSeed = 601;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const auto betting = BettingCriticalValues(kLooks, kRate, kAlpha);
  ExpectKeepsAlpha("betting", PeekAtBernoulli(betting, kRate, kRuns, kSeed));
  const auto sides = BettingCriticalValues(kLooks, kRate, kAlpha / 2);
  const Calls misses = PeekAtBernoulli(sides, kRate, kRuns, kSeed);
  EXPECT_LE(misses.SatisfiedShare() + misses.ViolatedShare(), ErrorBound(kAlpha, kRuns));
  const auto z = ZCriticalValues(kLooks, kRate, 1.6448536269514722);
  const Calls naive = PeekAtBernoulli(z, kRate, kRuns, kSeed);
  EXPECT_GT(naive.SatisfiedShare(), 0.3);
  EXPECT_GT(naive.ViolatedShare(), 0.25);
}

TEST(Peeking, TenThousandLooksAtRealValuesKeepAlpha) {
  constexpr uint64_t kSeed = 611;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  ExpectKeepsAlpha("betting on means", PeekAtMeans(0.05, 10000, 100, kAlpha, kSeed));
}

TEST(Detectors, KeepTheirGuaranteeAndSeeShifts) {
  constexpr uint64_t kSeed = 701;
  constexpr int64_t kRuns = 500;
  constexpr double kLevel = 500;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const struct {
    DetectorKind kind;
    double calm_low, calm_high;    // bands around 731 and 9283 observations
    double delay_low, delay_high;  // at four times the rate: 31 and 43
  } cases[] = {{DetectorKind::kShiryaevRoberts, 620, 860, 27, 35},
               {DetectorKind::kCusum, 7800, 10800, 37, 49}};
  for (const auto& c : cases) {
    const AlarmTimes calm = MeasureAlarms(c.kind, 0.05, kLevel, 0.05, kRuns, kSeed);
    EXPECT_GE(calm.mean + 3 * calm.standard_error, kLevel);
    EXPECT_LE(calm.share_by_100, ErrorBound(100 / kLevel, kRuns));
    EXPECT_GT(calm.mean, c.calm_low);
    EXPECT_LT(calm.mean, c.calm_high);
    const AlarmTimes shifted = MeasureAlarms(c.kind, 0.05, kLevel, 0.2, kRuns, kSeed);
    EXPECT_GT(shifted.mean, c.delay_low);
    EXPECT_LT(shifted.mean, c.delay_high);
  }
}

}  // namespace
}  // namespace kcc
