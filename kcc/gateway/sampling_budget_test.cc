#include "kcc/gateway/sampling_budget.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

int64_t load_us = 0;
int64_t ReadLoad() { return load_us; }

// A thread that has so much to do in each microsecond, and `picked` requests a second that are to
// be sampled: how many of them are, in the last of three seconds.
int SampledOf(double load, int picked, size_t bytes) {
  load_us = 0;
  SamplingBudget budget(ReadLoad);
  int sampled = 0;
  for (int i = 0; i < 3 * picked; ++i) {
    const double now_us = 1e6 * i / picked;
    load_us = static_cast<int64_t>(load * now_us);
    if (!budget.Allows(static_cast<int64_t>(now_us))) continue;
    budget.Spend(bytes);
    sampled += i >= 2 * picked ? 1 : 0;
  }
  return sampled;
}

TEST(SamplingBudget, AThreadThatHasTimeReadsAllThatIsPicked) {
  EXPECT_EQ(SampledOf(0.1, 6000, 20'000), 6000);
  EXPECT_EQ(SampledOf(0.49, 6000, 20'000), 6000);
}

TEST(SamplingBudget, AThreadThatIsBusyGivesThemAHundredthOfItsTime) {
  EXPECT_NEAR(SampledOf(0.9, 6000, 20'000), 0.01 * 1e6 / 26, 30);
  EXPECT_NEAR(SampledOf(0.9, 60'000, 0), 0.01 * 1e6 / 6, 30);
  EXPECT_EQ(SampledOf(0.9, 300, 20'000), 300) << "what it has time for all the same";
  EXPECT_GE(SampledOf(1.0, 1000, 2'000'000), 4) << "long answers too";
}

TEST(SamplingBudget, AfterABusyTimeAllIsReadAgain) {
  load_us = 0;
  SamplingBudget budget(ReadLoad);
  int64_t now_us = 0;
  for (; now_us < 1'000'000; now_us += 100) {
    load_us = now_us;
    if (budget.Allows(now_us)) budget.Spend(100'000);
  }
  EXPECT_FALSE(budget.Allows(now_us));
  EXPECT_TRUE(budget.Allows(now_us + 200'000));
  budget.Spend(10'000'000);
  EXPECT_TRUE(budget.Allows(now_us + 200'001)) << "nobody waits for the time";
}

TEST(SamplingBudget, TheClockGoesOnWithTheThread) {
  const int64_t before = SamplingBudget::ThreadLoadUs();
  volatile double sum = 0;
  for (int i = 0; i < 20'000'000; ++i) sum = sum + i;
  EXPECT_GT(SamplingBudget::ThreadLoadUs(), before);
}

}  // namespace
}  // namespace kcc
