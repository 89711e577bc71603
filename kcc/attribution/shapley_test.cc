#include "kcc/attribution/shapley.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

namespace kcc {
namespace {

std::array<double, kCorners> Drawn() {
  std::array<double, kCorners> v{};
  for (double& value : v) {
    value = static_cast<double>(*rc::gen::inRange<int64_t>(0, int64_t{1} << 40)) *
            std::ldexp(1.0, *rc::gen::inRange(-60, -20));
  }
  return v;
}

TEST(Shapley, SharesAddUpToTheTotalExactly) {
  EXPECT_TRUE(rc::check([] {
    const ShapleyShares s = ShapleyOf(Drawn());
    RC_ASSERT(((s.share[0] + s.share[1]) + s.share[2]) + s.share[3] == s.total);
    RC_ASSERT(((s.share[3] + s.share[2]) + s.share[1]) + s.share[0] == s.total);
  }));
}

TEST(Shapley, AdditiveSourcesKeepWhatTheyDoAlone) {
  EXPECT_TRUE(rc::check([] {
    std::array<double, 4> effect{};
    for (double& e : effect) e = *rc::gen::inRange(-1000, 1000) / 8.0;
    std::array<double, kCorners> v{};
    for (size_t mask = 0; mask < kCorners; ++mask) {
      for (size_t i = 0; i < 4; ++i) {
        if ((mask >> i) & 1) v[mask] += effect[i];
      }
    }
    const ShapleyShares s = ShapleyOf(v);
    for (size_t i = 0; i < 4; ++i) RC_ASSERT(std::fabs(s.share[i] - effect[i]) < 1e-9);
    RC_ASSERT(s.interaction == 0);
  }));
}

TEST(Shapley, ASourceThatChangesNothingHasNoShare) {
  EXPECT_TRUE(rc::check([] {
    std::array<double, kCorners> v = Drawn();
    for (size_t mask = 0; mask < kCorners; ++mask) v[mask | 4] = v[mask & ~size_t{4}];
    RC_ASSERT(ShapleyOf(v).share[2] == 0);
  }));
}

// Two sources that matter only together share alike, and all of it is interaction.
TEST(Shapley, APairIsSharedInHalves) {
  std::array<double, kCorners> v{};
  for (size_t mask = 0; mask < kCorners; ++mask) v[mask] = (mask & 3) == 3 ? 6 : 0;
  const ShapleyShares s = ShapleyOf(v);
  EXPECT_EQ(s.share, (std::array<double, 4>{3, 3, 0, 0}));
  EXPECT_EQ(s.interaction, 6);
}

}  // namespace
}  // namespace kcc
