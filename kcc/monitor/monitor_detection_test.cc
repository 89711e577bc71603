// Delays and false alarms in small; bench/monitor_detection.cc has the stated figures.
#include <gtest/gtest.h>

#include <cmath>

#include "kcc/monitor/monitor.h"
#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using testing::GoodOrBad;
using testing::Has;
using testing::MonitorContract;
using testing::SoftKl;
using testing::TestPolicy;

constexpr double kLimit = 0.05;
constexpr int64_t kRequestsPerAlarm = 2000;

MonitorPolicy ShortPolicy(bool once_per_session) {
  MonitorPolicy policy = TestPolicy();
  policy.false_alarms.requests = kRequestsPerAlarm;
  policy.audit.once_per_session = once_per_session;
  policy.audit.session_filter_bits = 1 << 22;
  return policy;
}

struct Outcome {
  double audited = 0;
  double alarms = 0;
};

// Sessions of ten requests in a row, of which two agree with correlation `icc`.
Outcome Simulate(double rate, double icc, bool once_per_session, int64_t requests) {
  Monitor monitor =
      *Monitor::Make(MonitorContract({SoftKl(kLimit)}), ShortPolicy(once_per_session));
  RandomStream random(31);
  Outcome outcome;
  bool shared = false;
  for (int64_t i = 0; i < requests; ++i) {
    if (i % 10 == 0) shared = random.Bernoulli(rate);
    const bool bad = random.Bernoulli(std::sqrt(icc)) ? shared : random.Bernoulli(rate);
    MonitorObservation observation = GoodOrBad(i, bad);
    if (icc > 0) observation.session = "s" + std::to_string(i / 10);
    const MonitorDecision decision = *monitor.Observe(observation);
    outcome.audited += decision.handling == Handling::kCounted ? 1 : 0;
    outcome.alarms += Has(decision, MonitorChangeKind::kAlarm) ? 1 : 0;
  }
  return outcome;
}

// What the budget allows on average, and three standard errors.
double AlarmsAllowed(const Outcome& outcome) {
  const double expected = outcome.audited / static_cast<double>(kRequestsPerAlarm);
  return expected + 3 * std::sqrt(expected);
}

TEST(MonitorDetection, KeepsTheBudgetOfFalseAlarms) {
  const Outcome outcome = Simulate(kLimit, 0, true, 60000);
  EXPECT_GT(outcome.audited, 59000);
  EXPECT_GT(outcome.alarms, 0) << "at the limit itself some must come";
  EXPECT_LE(outcome.alarms, AlarmsAllowed(outcome));
}

TEST(MonitorDetection, OneRequestOfASessionKeepsItUnderCorrelation) {
  const Outcome once = Simulate(kLimit, 0.3, true, 300000);
  EXPECT_NEAR(once.audited, 30000, 300);
  EXPECT_LE(once.alarms, AlarmsAllowed(once));
}

TEST(MonitorDetection, EveryRequestOfASessionBreaksIt) {
  const Outcome every = Simulate(kLimit, 0.3, false, 60000);
  EXPECT_GT(every.alarms, 3 * AlarmsAllowed(every));
}

TEST(MonitorDetection, SeesAThreefoldRate) {
  RandomStream random(37);
  double total = 0;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run) {
    Monitor monitor = *Monitor::Make(MonitorContract({SoftKl(kLimit)}), TestPolicy());
    for (int64_t i = 0;; ++i, ++total) {
      const auto decision = monitor.Observe(GoodOrBad(i, random.Bernoulli(3 * kLimit)));
      if (Has(*decision, MonitorChangeKind::kAlarm)) break;
    }
  }
  EXPECT_GT(total / kRuns, 100);
  EXPECT_LT(total / kRuns, 160) << "about ln(10^6) / KL(0.15 || 0.05) = 138";
}

}  // namespace
}  // namespace kcc
