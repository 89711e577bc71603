#include "kcc/stats/running_bets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kcc/stats/simulation.h"

namespace kcc {
namespace {

const UnitValue kGood = *ToUnitValue(0);
const UnitValue kBad = *ToUnitValue(1);

TEST(RunningBets, IsTheTestThatBettingSumsHolds) {
  for (const double m : {0.001, 0.05, 0.5, 0.97}) {
    const BettingPlan plan = *MakeBettingPlan(m);
    RunningBets running;
    BettingSums sums;
    RandomStream random(11);
    for (int i = 0; i < 5000; ++i) {
      const double x = random.Bernoulli(m / 2) ? random.Uniform() : random.Uniform() * m / 4;
      const UnitValue value = i == 100 ? kBad : *ToUnitValue(x);
      running.Add(plan, value);
      sums.Add(plan, value);
      if (i % 500 != 0) continue;
      EXPECT_NEAR(running.LogE(plan), LogEPass(plan, sums), 1e-5) << m;
    }
  }
}

TEST(RunningBets, NeitherOverflowsNorLosesARuinedBet) {
  const BettingPlan plan = *MakeBettingPlan(0.5);
  RunningBets bets;
  for (int i = 0; i < 100000; ++i) bets.Add(plan, kGood);
  EXPECT_NEAR(bets.LogE(plan), 100000 * std::log(2), 5);
  bets.Add(plan, kBad);
  EXPECT_EQ(bets.wealth[0], 0) << "the bet on r = 0";
  for (int i = 0; i < 100000; ++i) bets.Add(plan, kBad);
  EXPECT_LT(bets.LogE(plan), 0);
  EXPECT_TRUE(std::isfinite(bets.LogE(plan)));
  bets.Reset();
  EXPECT_NEAR(bets.LogE(plan), 0, 1e-12);
}

TEST(RunningBets, CertifiesAsManyZerosAsTheSequentialTestNeeds) {
  const BettingPlan plan = *MakeBettingPlan(0.01);
  RunningBets bets;
  int zeros = 0;
  while (!bets.Certifies(plan, 0.05)) {
    bets.Add(plan, kGood);
    ++zeros;
  }
  EXPECT_EQ(zeros, 360) << "docs/math.md C.4";
}

}  // namespace
}  // namespace kcc
