#include "kcc/monitor/forecast.h"

#include <gtest/gtest.h>

#include <array>

#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using testing::GoodOrBad;
using testing::Has;
using testing::MonitorClause;
using testing::MonitorContract;
using testing::SoftKl;
using testing::TestPolicy;

TEST(Forecast, SaysWhatAMonitorThenDoes) {
  const Contract contract = MonitorContract({SoftKl(0.01), MonitorClause("hard", "max_kl", 1)});
  const std::array factors = {2.0, 3.0};
  ForecastOptions options;
  options.runs = 60;
  const auto forecast = ForecastMonitor(contract, TestPolicy(), factors, options);
  ASSERT_TRUE(forecast.has_value()) << forecast.error().Format();
  ASSERT_EQ(forecast->pairs.size(), 2u);
  const PairForecast& soft = forecast->pairs[0];
  EXPECT_EQ(soft.signal, "detector");
  EXPECT_EQ(soft.target, "careful");
  EXPECT_TRUE(soft.certifies);
  ASSERT_EQ(soft.shifts.size(), 2u);
  EXPECT_GT(soft.shifts[0].observations, soft.shifts[1].observations);
  EXPECT_LE(soft.shifts[1].early, soft.shifts[1].observations);
  EXPECT_GE(soft.shifts[1].late, soft.shifts[1].observations);
  const PairForecast& hard = forecast->pairs[1];
  EXPECT_EQ(hard.signal, "proof");
  EXPECT_TRUE(hard.shifts.empty());
  EXPECT_FALSE(hard.certifies);
  EXPECT_FALSE(hard.why.empty());
}

// The monitor itself alarms about when the forecast says.
TEST(Forecast, AgreesWithTheMonitor) {
  const Contract contract = MonitorContract({SoftKl(0.05)});
  const std::array factors = {4.0};
  ForecastOptions options;
  options.runs = 100;
  const auto forecast = ForecastMonitor(contract, TestPolicy(), factors, options);
  ASSERT_TRUE(forecast.has_value());
  const ShiftForecast shift = forecast->pairs[0].shifts[0];
  RandomStream random(99);
  double total = 0;
  constexpr int kStreams = 40;
  for (int stream = 0; stream < kStreams; ++stream) {
    Monitor monitor = *Monitor::Make(contract, TestPolicy());
    for (int64_t i = 1;; ++i) {
      ASSERT_LT(i, 20'000);
      const auto decision = monitor.Observe(GoodOrBad(i, random.Bernoulli(0.2)));
      ASSERT_TRUE(decision.has_value());
      if (!Has(*decision, MonitorChangeKind::kAlarm)) continue;
      total += static_cast<double>(i);
      break;
    }
  }
  EXPECT_NEAR(total / kStreams / shift.observations, 1, 0.35);
}

TEST(Forecast, AlarmsAtTheLimitStayWithinTheBudget) {
  const Contract contract = MonitorContract({SoftKl(0.05)});
  MonitorPolicy policy = TestPolicy();
  policy.false_alarms.requests = 10'000;
  const std::array factors = {1.0};
  ForecastOptions options;
  options.runs = 400;
  options.observations_max = 1000;
  const auto forecast = ForecastMonitor(contract, policy, factors, options);
  ASSERT_TRUE(forecast.has_value());
  const ShiftForecast shift = forecast->pairs[0].shifts[0];
  // At most one run in ten; four standard deviations of 400 runs are 24 more.
  EXPECT_LE(shift.runs - shift.unseen, 64);
}

}  // namespace
}  // namespace kcc
