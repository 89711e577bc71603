#include "kcc/rl/replay.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kcc/rl/rl_test_data.h"

namespace kcc {
namespace {

using testing::NoisyBatch;
using testing::OwnedBatch;

TEST(RlReplay, GridIsValidAndHasNoTwins) {
  const auto grid = ReplayGrid();
  EXPECT_GE(grid.size(), 35u);
  EXPECT_EQ(DescribeCorrection(grid[0]), "weight 1");
  for (size_t i = 0; i < grid.size(); ++i) {
    EXPECT_TRUE(CheckCorrection(grid[i]).has_value());
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(DescribeCorrection(grid[i]), DescribeCorrection(grid[j]));
    }
  }
}

TEST(RlReplay, TheFrontHoldsNothingThatAnotherBeats) {
  const OwnedBatch batch = NoisyBatch(40, 50, 0.1, 5);
  const auto replay = ReplayRl(batch.View(), ReplayGrid());
  ASSERT_TRUE(replay.has_value());
  int front = 0;
  for (const RlReplayRow& row : replay->rows) {
    front += row.pareto;
    if (!row.pareto) continue;
    for (const RlReplayRow& other : replay->rows) {
      if (other.metrics[0].tokens_kept == 0) continue;
      EXPECT_FALSE(other.metrics[0].bias_sequence < row.metrics[0].bias_sequence &&
                   other.metrics[0].variance < row.metrics[0].variance);
    }
  }
  EXPECT_GT(front, 0);
  ASSERT_GE(replay->recommended, 0);
  const RlReplayRow& best = replay->rows[static_cast<size_t>(replay->recommended)];
  EXPECT_GE(best.kept_min, 0.5);
  EXPECT_FALSE(replay->reason.empty());
}

TEST(RlReplay, SaysWhichSliceWouldBeLost) {
  OwnedBatch batch = NoisyBatch(30, 40, 0.001, 6);
  for (size_t i = 0; i < batch.train.size(); ++i) {  // "math" is broken, the rest is fine
    if (batch.slice_of_row[i / 40] == 2) batch.train[i] -= 0.3;
  }
  RlCorrection band;
  band.reject = {{RlStatistic::kRatio, RlAggregate::kSequenceMean, 0.99, 1.01}};
  const auto replay = ReplayRl(batch.View(), std::span(&band, 1));
  ASSERT_TRUE(replay.has_value());
  EXPECT_EQ(replay->rows[0].kept_min_slice, "math");
  EXPECT_EQ(replay->rows[0].kept_min, 0);
  EXPECT_EQ(replay->recommended, -1);
  EXPECT_NE(replay->reason.find("close the gap"), std::string::npos);
}

TEST(RlReplay, NothingToReplayIsAnError) {
  OwnedBatch batch = NoisyBatch(3, 4, 0.1, 1);
  batch.mask.assign(batch.mask.size(), 0);
  EXPECT_FALSE(ReplayRl(batch.View(), ReplayGrid()).has_value());
}

TEST(RlReplay, ThePageHoldsItsDataAndCannotBeBrokenOutOf) {
  OwnedBatch batch = NoisyBatch(9, 12, 0.05, 2);
  batch.slice_names[0] = "</script><script>alert(1)";
  const auto replay = ReplayRl(batch.View(), ReplayGrid());
  ASSERT_TRUE(replay.has_value());
  const std::string page = ReplayHtml(*replay, "a <b> & c");
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_EQ(page.find("alert(1)</"), std::string::npos);
  EXPECT_EQ(page.find("</script><script>alert"), std::string::npos);
  EXPECT_NE(page.find("a &lt;b> &amp; c"), std::string::npos);
  EXPECT_EQ(page.find("http://"), page.find("http://www.w3.org/2000/svg"));
  EXPECT_EQ(page, ReplayHtml(*replay, "a <b> & c"));
}

}  // namespace
}  // namespace kcc
