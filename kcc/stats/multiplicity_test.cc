#include "kcc/stats/multiplicity.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <cmath>
#include <limits>
#include <vector>

namespace kcc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Holm, StepsDownUntilTheFirstThatFails) {
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.005};
  EXPECT_EQ(HolmRejects(p, 0.05), (std::vector<bool>{true, false, false, true}));
  EXPECT_EQ(HolmRejects(std::vector<double>{0.02, 0.024, 0.04}, 0.05),
            (std::vector<bool>{false, false, false}));
  EXPECT_EQ(HolmRejects({}, 0.05), std::vector<bool>{});
}

TEST(Holm, NeverRejectsWithoutEvidence) {
  EXPECT_EQ(HolmRejects(std::vector<double>{std::nan(""), 1e-9, 1}, 0.05),
            (std::vector<bool>{false, true, false}));
}

TEST(Holm, RejectsAllBonferroniDoesAndNothingAboveAlpha) {
  const bool ok = rc::check("between Bonferroni and uncorrected", [] {
    const auto thousandths = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 200));
    std::vector<double> p;
    for (const int t : thousandths) p.push_back(t / 1000.0);
    const auto rejected = HolmRejects(p, 0.05);
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] <= 0.05 / static_cast<double>(p.size())) RC_ASSERT(rejected[i]);
      if (p[i] > 0.05) RC_ASSERT(!rejected[i]);
    }
  });
  EXPECT_TRUE(ok);
}

TEST(EBenjaminiHochberg, RejectsTheLargestThatCarryEachOther) {
  // m = 4, alpha = 0.05: one needs 80, two need 40 each, three 26.7 each.
  const auto log_of = [](std::vector<double> e) {
    for (double& v : e) v = std::log(v);
    return e;
  };
  EXPECT_EQ(EBenjaminiHochbergRejects(log_of({41, 1, 40.5, 26}), 0.05),
            (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(EBenjaminiHochbergRejects(log_of({39, 27, 27, 1}), 0.05),
            (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(EBenjaminiHochbergRejects(log_of({79, 1, 1, 1}), 0.05), std::vector<bool>(4, false));
  EXPECT_EQ(EBenjaminiHochbergRejects(std::vector<double>{std::nan(""), kInfinity}, 0.05),
            (std::vector<bool>{false, true}));
}

TEST(SpentAlpha, AddsUpToAlpha) {
  double sum = 0;
  for (int64_t j = 1; j <= 100000; ++j) sum += SpentAlpha(0.05, j);
  EXPECT_LT(sum, 0.05);
  EXPECT_NEAR(sum, 0.05, 1e-6);
}

TEST(CombinedEValues, TheMeanIsTakenWithoutOverflow) {
  const std::vector<double> log_e = {std::log(2.0), std::log(6.0), -kInfinity};
  EXPECT_NEAR(LogMeanE(log_e), std::log(8.0 / 3), 1e-15);
  EXPECT_EQ(LogMeanE(std::vector<double>{-kInfinity}), -kInfinity);
  EXPECT_NEAR(LogMeanE(std::vector<double>{5000, 5000}), 5000, 1e-9) << "no overflow";
}

}  // namespace
}  // namespace kcc
