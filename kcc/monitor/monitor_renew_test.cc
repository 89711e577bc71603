// A kernel of which another build bears the name: its evidence begins anew, and frees it of
// nothing.
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

Contract RenewContract() {
  return MonitorContract({SoftKl(0.05), MonitorClause("hard", "max_kl", 3)});
}

class MonitorRenew : public ::testing::Test {
 protected:
  MonitorDecision See(bool bad, int64_t time_ms) {
    MonitorObservation observation = GoodOrBad(next_++, bad);
    observation.time_ms = time_ms;
    auto decision = monitor_.Observe(observation);
    EXPECT_TRUE(decision.has_value()) << decision.error().Format();
    return *std::move(decision);
  }
  KernelStatus Fast() { return KernelIn(monitor_.Status(), "fast"); }
  Verdict Soft() { return Fast().pairs.front().verdict; }
  void Break(int64_t time_ms) {
    for (int i = 0; i < 500 && Fast().state != KernelState::kGuarded; ++i) See(true, time_ms);
    ASSERT_EQ(Fast().state, KernelState::kGuarded);
  }
  MonitorDecision Renew(int64_t time_ms) {
    auto decision = monitor_.Renew("fast", time_ms, "it is another build");
    EXPECT_TRUE(decision.has_value());
    return *std::move(decision);
  }

  Monitor monitor_ = *Monitor::Make(RenewContract(), TestPolicy());
  int64_t next_ = 0;
};

TEST_F(MonitorRenew, WhatWasSatisfiedIsInconclusiveUntilTheNewBuildShowsIt) {
  while (Soft() != Verdict::kSatisfied) See(false, 1000);
  const int64_t other = KernelIn(monitor_.Status(), "careful").audited;
  const MonitorDecision decision = Renew(2000);
  EXPECT_EQ(decision.handling, Handling::kRenewed);
  EXPECT_EQ(decision.number, next_ + 1);
  ASSERT_TRUE(Has(decision, MonitorChangeKind::kRenew));
  EXPECT_EQ(decision.changes.front().reason, "it is another build");
  EXPECT_EQ(Soft(), Verdict::kInconclusive);
  EXPECT_EQ(Fast().state, KernelState::kServing);
  EXPECT_EQ(Fast().pairs.front().observations, 0);
  EXPECT_EQ(KernelIn(monitor_.Status(), "careful").audited, other);
  EXPECT_EQ(monitor_.Status().unread, 0) << "it is no line that could not be read";
  // Requests of the old build, told late, do not speak for the new one.
  for (int i = 0; i < 500; ++i) See(false, 1999);
  EXPECT_EQ(Soft(), Verdict::kInconclusive);
  for (int i = 0; i < 500; ++i) See(false, 2001);
  EXPECT_EQ(Soft(), Verdict::kSatisfied);
}

TEST_F(MonitorRenew, AGuardedKernelStaysGuardedAndIsReleasedByTheNewBuildsProbesAlone) {
  Break(1000);
  const std::string target = Fast().target;
  for (int i = 0; i < 20; ++i) See(false, 1500);  // probes of the old build, not enough
  EXPECT_FALSE(Has(Renew(2000), MonitorChangeKind::kRelease));
  EXPECT_EQ(Fast().state, KernelState::kGuarded);
  EXPECT_EQ(Fast().target, target);
  EXPECT_EQ(Soft(), Verdict::kViolated);
  EXPECT_NE(monitor_.serves(), "fast");
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(Has(See(false, 1999), MonitorChangeKind::kRelease)) << "of the old build";
  }
  bool released = false;
  for (int i = 0; i < 1000 && !released; ++i) {
    released = Has(See(false, 2001), MonitorChangeKind::kRelease);
  }
  EXPECT_TRUE(released);
}

TEST_F(MonitorRenew, RenewedAgainAndAgainItIsNeverReleased) {
  Break(1000);
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 10; ++i) {
      ASSERT_FALSE(Has(See(false, 2000 + round), MonitorChangeKind::kRelease));
    }
    Renew(2001 + round);
  }
  EXPECT_EQ(Fast().state, KernelState::kGuarded);
}

// In panic the least bad kernel serves.
TEST_F(MonitorRenew, WhereAllAreGuardedItDoesNotBecomeTheSafest) {
  Break(1000);
  for (const char* kernel : {"careful", "reference"}) {
    for (int i = 0; i < 500 && KernelIn(monitor_.Status(), kernel).state != KernelState::kGuarded;
         ++i) {
      ASSERT_TRUE(monitor_.Observe(GoodOrBad(next_++, true, kernel)).has_value());
    }
  }
  ASSERT_TRUE(monitor_.Status().panic);
  const double health = Fast().health;
  const std::string serves = monitor_.serves();
  Renew(9000);
  EXPECT_EQ(Fast().health, health);
  EXPECT_EQ(monitor_.serves(), serves);
}

TEST_F(MonitorRenew, BrokenEvidenceOfAGuardedKernelIsNotForgotten) {
  MonitorObservation broken = GoodOrBad(next_++, false);
  broken.time_ms = 1000;
  broken.broken = "it read another prompt";
  ASSERT_TRUE(Has(*monitor_.Observe(broken), MonitorChangeKind::kGuard));
  Renew(2000);
  EXPECT_EQ(Fast().verdict, Verdict::kError);
  EXPECT_EQ(Fast().state, KernelState::kGuarded);
}

TEST_F(MonitorRenew, ItIsSavedAndAStateWithoutItIsWrittenAsBefore) {
  See(false, 1000);
  const std::string before = monitor_.Save();
  EXPECT_TRUE(Monitor::Restore(RenewContract(), TestPolicy(), before).has_value());
  Renew(2000);
  const std::string saved = monitor_.Save();
  auto restored = Monitor::Restore(RenewContract(), TestPolicy(), saved);
  ASSERT_TRUE(restored.has_value()) << restored.error().Format();
  EXPECT_EQ(restored->Save(), saved);
  EXPECT_EQ(restored->Status().unread, 0);
  EXPECT_EQ(restored->Status().observations, 2);
}

TEST_F(MonitorRenew, AKernelThatThePolicyLacksIsRefused) {
  const std::string before = monitor_.Save();
  EXPECT_FALSE(monitor_.Renew("nobody", 1, "why").has_value());
  EXPECT_EQ(monitor_.Save(), before);
}

}  // namespace
}  // namespace kcc
