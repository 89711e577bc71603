// Evidence that is told after an alarm and is of before it: scoring takes time, and a line comes
// when it is done.
#include <gtest/gtest.h>

#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using testing::GoodOrBad;
using testing::Has;
using testing::KernelIn;
using testing::MonitorClause;
using testing::MonitorContract;
using testing::SoftKl;
using testing::TestPolicy;

Monitor MakeMonitor(std::vector<Clause> clauses) {
  auto monitor = Monitor::Make(MonitorContract(std::move(clauses)), TestPolicy());
  EXPECT_TRUE(monitor.has_value()) << monitor.error().Format();
  return *std::move(monitor);
}

MonitorObservation At(int64_t time_ms, int64_t number, bool bad) {
  MonitorObservation observation = GoodOrBad(number, bad);
  observation.time_ms = time_ms;
  return observation;
}

MonitorDecision See(Monitor& monitor, const MonitorObservation& observation) {
  auto decision = monitor.Observe(observation);
  EXPECT_TRUE(decision.has_value()) << decision.error().Format();
  return *std::move(decision);
}

TEST(EarlierEvidence, ReleasesNoKernelHoweverGoodAndHoweverMuch) {
  for (const Clause& clause : {MonitorClause("hard", "max_kl", 1), SoftKl(0.05)}) {
    Monitor monitor = MakeMonitor({clause});
    int64_t next = 0;
    while (KernelIn(monitor.Status(), "fast").state != KernelState::kGuarded && next < 500) {
      See(monitor, At(1000 + next, next, true));
      ++next;
    }
    ASSERT_EQ(KernelIn(monitor.Status(), "fast").state, KernelState::kGuarded);
    for (int i = 0; i < 2000; ++i, ++next) {
      EXPECT_FALSE(Has(See(monitor, At(999, next, false)), MonitorChangeKind::kRelease));
    }
    EXPECT_EQ(KernelIn(monitor.Status(), "fast").state, KernelState::kGuarded);
    bool released = false;  // what comes after it does
    for (int i = 0; i < 2000 && !released; ++i, ++next) {
      released = Has(See(monitor, At(5000 + i, next, false)), MonitorChangeKind::kRelease);
    }
    EXPECT_TRUE(released);
  }
}

TEST(EarlierEvidence, CountsAgainstTheKernelAllTheSame) {
  Monitor monitor = MakeMonitor({SoftKl(0.05), MonitorClause("hard", "max_kl", 3)});
  int64_t next = 0;
  while (KernelIn(monitor.Status(), "fast").state != KernelState::kGuarded && next < 500) {
    See(monitor, At(1000 + next, next, true));
    ++next;
  }
  MonitorObservation worse = testing::KlObservation(next, {4.0});
  worse.time_ms = 999;
  EXPECT_TRUE(Has(See(monitor, worse), MonitorChangeKind::kProof));
}

TEST(EarlierEvidence, IsToldFromLaterAfterARestartToo) {
  Monitor before = MakeMonitor({MonitorClause("hard", "max_kl", 1)});
  See(before, At(1000, 0, true));
  auto after = Monitor::Restore(before.contract(), before.policy(), before.Save());
  ASSERT_TRUE(after.has_value()) << after.error().Format();
  for (int i = 1; i < 200; ++i) See(*after, At(999, i, false));
  EXPECT_EQ(KernelIn(after->Status(), "fast").state, KernelState::kGuarded);
}

}  // namespace
}  // namespace kcc
