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

TEST(ChangeDetector, FollowsTheRecursion) {
  for (const DetectorKind kind : {DetectorKind::kShiryaevRoberts, DetectorKind::kCusum}) {
    constexpr double kM = 0.05;
    auto detector = *ChangeDetector::Make(kind, kM, 1e12);
    const DetectorPlan& plan = detector.plan();
    double m[kDetectorBetsMax] = {};
    RandomStream random(3);
    for (int i = 0; i < 300; ++i) {
      const double x = random.Bernoulli(0.04) ? random.Uniform() : 0;
      EXPECT_FALSE(detector.Observe(*ToUnitValue(x)));
      double mixture = 0;
      for (size_t k = 0; k < plan.bets(); ++k) {
        const double lambda = (plan.alternative(k) / kM - 1) / (1 - kM);
        const double factor = 1 + lambda * (x - kM);
        m[k] = kind == DetectorKind::kCusum ? std::max(m[k], 1.0) * factor : (m[k] + 1) * factor;
        mixture += m[k] * plan.weight(k);
      }
      ASSERT_NEAR(detector.LogStatistic(), std::log(mixture), 1e-9);
    }
  }
}

TEST(DetectorPlan, BetsOnTheShiftsThatItIsGiven) {
  const DetectorShift shifts[] = {{2, 1}, {3, 1}, {400, 2}};
  const auto kind = DetectorKind::kShiryaevRoberts;
  const DetectorPlan plan = *DetectorPlan::Make(kind, 0.01, 1e6, shifts);
  EXPECT_NEAR(plan.alternative(0), 0.02, 1e-12);
  EXPECT_NEAR(plan.alternative(1), 0.03, 1e-12);
  EXPECT_NEAR(plan.alternative(2), 0.505, 1e-12) << "no mean is beyond (1 + m)/2";
  EXPECT_EQ(plan.weight(2), 0.5);
  const DetectorPlan gap = *DetectorPlan::Make(kind, 0.51, 1e6, shifts, 0.5);
  EXPECT_NEAR(gap.alternative(0), 0.52, 1e-12) << "twice the gap, not twice the mean";
  EXPECT_FALSE(DetectorPlan::Make(kind, 0.01, 1e6, {}));
  const DetectorShift down[] = {{0.5, 1}};
  EXPECT_FALSE(DetectorPlan::Make(kind, 0.01, 1e6, down));
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
