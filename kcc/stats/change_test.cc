#include "kcc/stats/change.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/stats/simulation.h"

namespace kcc {
namespace {

const UnitValue kGood = *ToUnitValue(0);
const UnitValue kBad = *ToUnitValue(1);

TEST(ChangeDetector, RefusesWhatGivesNoGuarantee) {
  EXPECT_FALSE(ChangeDetector::Make(DetectorKind::kCusum, 0, 100));
  EXPECT_FALSE(ChangeDetector::Make(DetectorKind::kCusum, 1, 100));
  EXPECT_FALSE(ChangeDetector::Make(DetectorKind::kCusum, 0.1, 1));
  EXPECT_FALSE(ChangeDetector::Make(DetectorKind::kCusum, 0.1, std::nan("")));
  EXPECT_FALSE(GuardedDetector::Make(DetectorKind::kCusum, 0.1, 100, 0));
}

TEST(ChangeDetector, FollowsTheRecursionInTheLogDomain) {
  for (const DetectorKind kind : {DetectorKind::kShiryaevRoberts, DetectorKind::kCusum}) {
    constexpr double kM = 0.05;
    auto detector = *ChangeDetector::Make(kind, kM, 1e12);
    const auto plan = *MakeBettingPlan(kM, BetGrid::kCoarse);
    double m[kDetectorBets] = {};
    RandomStream random(3);
    for (int i = 0; i < 300; ++i) {
      const double x = random.Bernoulli(0.04) ? random.Uniform() : 0;
      EXPECT_FALSE(detector.Observe(*ToUnitValue(x)));
      double mixture = 0;
      for (size_t k = 0; k < kDetectorBets; ++k) {
        const double lambda = (plan.fail[k].alternative / kM - 1) / (1 - kM);
        const double factor = 1 + lambda * (x - kM);
        m[k] = kind == DetectorKind::kCusum ? std::max(m[k], 1.0) * factor : (m[k] + 1) * factor;
        mixture += m[k] / kDetectorBets;
      }
      ASSERT_NEAR(detector.LogStatistic(), std::log(mixture), 1e-6);
    }
  }
}

TEST(ChangeDetector, AlarmsAndStartsAfresh) {
  auto detector = *ChangeDetector::Make(DetectorKind::kCusum, 0.05, 500);
  EXPECT_EQ(detector.Level(), 0);
  int observations = 1;
  double level = 0;
  while (!detector.Observe(kBad)) {
    EXPECT_GT(detector.Level(), level);
    EXPECT_LT(detector.Level(), 1);
    level = detector.Level();
    ++observations;
  }
  EXPECT_LE(observations, 4);
  EXPECT_EQ(detector.LogStatistic(), -std::numeric_limits<double>::infinity());
}

TEST(GuardedDetector, LeavesOnlyOnEvidenceOfRecovery) {
  auto detector = *GuardedDetector::Make(DetectorKind::kCusum, 0.05, 500, 0.05);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(detector.Observe(kGood), GuardedDetector::State::kClear);
  while (detector.Observe(kBad) == GuardedDetector::State::kClear) {
  }
  EXPECT_EQ(detector.alarms(), 1);
  EXPECT_EQ(detector.Level(), 1);
  int good = 1;
  while (detector.Observe(kGood) == GuardedDetector::State::kGuarded) ++good;
  EXPECT_EQ(good, 63) << "as many zeros as the sequential test needs to certify 5%";
  EXPECT_LT(detector.Level(), 1);
}

TEST(GuardedDetector, StaysGuardedWhileTheStreamIsBad) {
  auto detector = *GuardedDetector::Make(DetectorKind::kCusum, 0.05, 500, 0.05);
  RandomStream random(5);
  bool entered = false;
  for (int i = 0; i < 3000; ++i) {
    const auto state = detector.Observe(random.Bernoulli(0.3) ? kBad : kGood);
    if (entered) {
      ASSERT_EQ(state, GuardedDetector::State::kGuarded);
    }
    entered |= state == GuardedDetector::State::kGuarded;
  }
  EXPECT_GT(detector.alarms(), 10);
}

}  // namespace
}  // namespace kcc
