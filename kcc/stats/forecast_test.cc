#include "kcc/stats/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kcc {
namespace {

constexpr double kAlpha = 0.05;

TEST(ForecastRate, WithoutExceedancesIsTheExactSampleSize) {
  const struct {
    int64_t seen;
    double eps;
    int64_t more;
  } cases[] = {{0, 0.1, 29}, {20, 0.1, 9}, {28, 0.1, 1}, {0, 0.01, 299}, {100, 0.001, 2895}};
  for (const auto& c : cases) {
    EXPECT_EQ(ForecastRate({0, c.seen}, c.eps, kAlpha), (Forecast{Outlook::kWouldPass, c.more}))
        << c.seen << " " << c.eps;
  }
}

TEST(ForecastRate, ScalingTheSampleByTheForecastSettlesIt) {
  for (const double eps : {0.02, 0.1, 0.4}) {
    for (const int64_t exceeding : {1, 3, 5, 30, 45}) {
      const Exceedance seen{exceeding, 100};
      const Forecast forecast = ForecastRate(seen, eps, kAlpha);
      if (forecast.more == 0) continue;
      // Whole multiples of the sample keep the rate exactly; the next one must decide.
      const int64_t times = (100 + forecast.more + 99) / 100;
      const RateDecision decision = DecideRate({exceeding * times, 100 * times}, eps, kAlpha);
      EXPECT_EQ(decision, forecast.outlook == Outlook::kWouldPass ? RateDecision::kCertified
                                                                  : RateDecision::kRefuted)
          << eps << " " << exceeding;
    }
  }
}

TEST(ForecastRate, NamesWhatNoSampleSettles) {
  EXPECT_EQ(ForecastRate({10, 100}, 0.1, kAlpha).outlook, Outlook::kAtBoundary);
  EXPECT_EQ(ForecastRate({0, 100}, 0, kAlpha).outlook, Outlook::kNeverPass);
  EXPECT_EQ(ForecastRate({0, 0}, 0, kAlpha).outlook, Outlook::kNeverPass);
  EXPECT_EQ(ForecastRate({1, 100}, 0, kAlpha).outlook, Outlook::kSettled);
  EXPECT_EQ(ForecastRate({0, 0}, 1e-13, kAlpha).outlook, Outlook::kAtBoundary) << "beyond 1e12";
}

TEST(ForecastBetting, MatchesTheSequentialTest) {
  const auto plan = *MakeBettingPlan(0.01);
  EXPECT_EQ(ForecastBetting(plan, {}, kAlpha, kAlpha), (Forecast{Outlook::kWouldPass, 360}));
  BettingSums bad;
  for (int i = 0; i < 40; ++i) bad.Add(plan, *ToUnitValue(i % 20 == 0 ? 1 : 0));
  const Forecast forecast = ForecastBetting(plan, bad, kAlpha, kAlpha);
  EXPECT_EQ(forecast.outlook, Outlook::kWouldFail);
  EXPECT_GT(forecast.more, 0);
  EXPECT_LT(forecast.more, 400);
  EXPECT_GT(ForecastBetting(plan, bad, kAlpha, kAlpha / 1000).more, forecast.more);
}

TEST(ForecastBetting, SaysSettledAndAtBoundary) {
  const auto plan = *MakeBettingPlan(0.5);
  BettingSums settled;
  for (int i = 0; i < 50; ++i) settled.Add(plan, *ToUnitValue(0));
  EXPECT_EQ(ForecastBetting(plan, settled, kAlpha, kAlpha).outlook, Outlook::kSettled);
  BettingSums level;
  for (int i = 0; i < 50; ++i) level.Add(plan, *ToUnitValue(0.5));
  EXPECT_EQ(ForecastBetting(plan, level, kAlpha, kAlpha).outlook, Outlook::kAtBoundary);
}

}  // namespace
}  // namespace kcc
