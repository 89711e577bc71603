#include "kcc/rl/replay_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kcc/rl/own_kernel.h"
#include "kcc/rl/rl_test_data.h"

namespace kcc {
namespace {

using testing::NoisyBatch;
using testing::OwnedBatch;

// The least score of a family over every threshold there is.
std::pair<double, bool> Exhaustive(const RlBatch& batch, const RlThresholdFamily& family,
                                   const RlReplayOptions& options) {
  double best = std::numeric_limits<double>::infinity();
  bool any = false;
  const auto thresholds = ThresholdsOf(batch, family);
  EXPECT_TRUE(thresholds.has_value());
  for (const double threshold : *thresholds) {
    const auto row = ReplayOne(batch, AtThreshold(family, threshold), options);
    EXPECT_TRUE(row.has_value());
    if (UnfitOf(*row, options) != RlUnfit::kFits) continue;
    any = true;
    best = std::min(best, ReplayScore(*row, options));
  }
  return {best, any};
}

TEST(ReplaySearch, EveryThresholdIsValidAndKeepsTheUnitWhoseValueItIs) {
  const OwnedBatch owned = NoisyBatch(30, 20, 0.02, 3);
  for (const RlThresholdFamily& family : ReplayFamilies()) {
    const auto thresholds = ThresholdsOf(owned.View(), family);
    ASSERT_TRUE(thresholds.has_value());
    ASSERT_FALSE(thresholds->empty());
    EXPECT_TRUE(std::is_sorted(thresholds->begin(), thresholds->end()));
    for (const double threshold : *thresholds) {
      const RlCorrection correction = AtThreshold(family, threshold);
      EXPECT_TRUE(CheckCorrection(correction).has_value()) << DescribeCorrection(correction);
    }
    // The largest value of the batch loses nothing by its own threshold.
    const auto row =
        ReplayOne(owned.View(), AtThreshold(family, thresholds->back()), RlReplayOptions());
    ASSERT_TRUE(row.has_value());
    EXPECT_EQ(row->metrics[0].tokens_kept, row->metrics[0].tokens);
    EXPECT_EQ(row->metrics[0].units_outside, 0) << DescribeCorrection(row->correction);
  }
}

TEST(ReplaySearch, FindsTheBestOfAllThresholdsWhereRejectionIsBySequence) {
  // Some rows are far off, so that rejecting them pays.
  OwnedBatch owned = NoisyBatch(60, 30, 0.01, 4);
  for (size_t i = 0; i < owned.train.size(); ++i) {
    if (i / 30 % 20 == 7) owned.train[i] -= 0.2;
  }
  RlReplayOptions options;
  options.kept_min = 0.5;
  const auto replay = ReplayAndSearch(owned.View(), options);
  ASSERT_TRUE(replay.has_value()) << replay.error().Format();
  int searched = 0;
  for (const RlReplayRow& row : replay->rows) searched += row.searched;
  EXPECT_GT(searched, 3);
  const auto& rows = replay->rows;
  for (const RlThresholdFamily& family : ReplayFamilies()) {
    const auto [best, any] = Exhaustive(owned.View(), family, options);
    if (!any) continue;
    // What the search offers of the whole list is never worse than the family's best.
    double offered = std::numeric_limits<double>::infinity();
    for (const RlReplayRow& row : rows) {
      if (UnfitOf(row, options) != RlUnfit::kFits) continue;
      offered = std::min(offered, ReplayScore(row, options));
    }
    EXPECT_LE(offered, best * (1 + 1e-9));
  }
}

TEST(ReplaySearch, IsNeverWorseThanTheGridAndTheSameEachTime) {
  const OwnedBatch owned = NoisyBatch(50, 40, 0.08, 5);
  const RlReplayOptions options;
  const auto grid = ReplayRl(owned.View(), ReplayGrid(), options);
  const auto first = ReplayAndSearch(owned.View(), options);
  RlReplayOptions threads = options;
  threads.threads = 3;
  const auto second = ReplayAndSearch(owned.View(), threads);
  ASSERT_TRUE(grid.has_value() && first.has_value() && second.has_value());
  ASSERT_GE(first->recommended, 0);
  const auto score = [&](const RlReplay& replay) {
    return ReplayScore(replay.rows[static_cast<size_t>(replay.recommended)], options);
  };
  EXPECT_LE(score(*first), score(*grid));
  ASSERT_EQ(first->rows.size(), second->rows.size());
  for (size_t i = 0; i < first->rows.size(); ++i) {
    EXPECT_EQ(first->rows[i].correction, second->rows[i].correction);
  }
  EXPECT_EQ(first->reason, second->reason);
}

TEST(ReplaySearch, RecommendsNoThresholdInsideTheKernelsOwnGap) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    const OwnedBatch owned = NoisyBatch(120, 40, 0.08, seed);  // mean k3 about 0.003
    const auto replay = ReplayAndSearch(owned.View());
    ASSERT_TRUE(replay.has_value());
    ASSERT_GE(replay->recommended, 0);
    const RlReplayRow& best = replay->rows[static_cast<size_t>(replay->recommended)];
    EXPECT_GE(best.kept_min, 0.9);
    const auto owns = OwnKernelOf(owned.View(), best.correction);
    ASSERT_TRUE(owns.has_value());
    for (const RlOwnKernel& own : *owns) EXPECT_FALSE(own.below_own()) << OwnKernelText(own);
  }
}

TEST(ReplaySearch, AMaskThatLosesTokensKeepsLess) {
  const OwnedBatch owned = NoisyBatch(60, 40, 0.1, 6);
  RlCorrection mask;
  mask.weight = {RlWeightMode::kMask, RlLevel::kToken, 0.95, 1.05, false};
  const auto row = ReplayOne(owned.View(), mask, RlReplayOptions());
  RlReplayOptions version1;
  version1.masked_is_lost = false;
  const auto former = ReplayOne(owned.View(), mask, version1);
  ASSERT_TRUE(row.has_value() && former.has_value());
  EXPECT_LT(row->kept_min, 0.6);
  EXPECT_EQ(former->kept_min, 1);
}

TEST(OwnKernel, AThresholdOfE3sKindIsBelowTheKernelsOwn) {
  const OwnedBatch owned = NoisyBatch(200, 40, 0.07, 8);  // mean k3 about 0.0024
  RlCorrection correction;
  correction.reject = {{RlStatistic::kK3, RlAggregate::kSequenceMean, 0, 0.001},
                       {RlStatistic::kK3, RlAggregate::kSequenceMean, 0, 0.02},
                       {RlStatistic::kRatio, RlAggregate::kSequenceMean, 0.999, 1.001}};
  const auto owns = OwnKernelOf(owned.View(), correction);
  ASSERT_TRUE(owns.has_value());
  ASSERT_EQ(owns->size(), 3u);
  EXPECT_TRUE((*owns)[0].below_own());
  EXPECT_FALSE((*owns)[1].below_own());
  EXPECT_TRUE((*owns)[2].below_own());
  EXPECT_EQ((*owns)[1].setting, "reject[1]");
  const RlOwnKernel& k3 = (*owns)[0];
  ASSERT_EQ(k3.quantiles.size(), 4u);
  EXPECT_LT(k3.quantiles[1].value, k3.quantiles[2].value);
  EXPECT_NEAR(k3.mean, 0.07 * 0.07 / 2, 5e-4);
  EXPECT_NE(OwnKernelText(k3).find("sequence mean k3: p50"), std::string::npos);
  EXPECT_GT((*owns)[2].quantiles[1].value, 1);
}

TEST(OwnKernel, StalenessIsNotTheKernels) {
  OwnedBatch owned = NoisyBatch(200, 40, 0.001, 9);
  owned.old = owned.train;
  for (double& train : owned.train) train = std::min(0.0, train - 0.1);  // newer weights
  RlCorrection correction;
  correction.reject = {{RlStatistic::kK3, RlAggregate::kSequenceMean, 0, 0.001}};
  const auto owns = OwnKernelOf(owned.View(), correction);
  ASSERT_TRUE(owns.has_value());
  EXPECT_FALSE(owns->front().below_own());
  owned.old.clear();
  EXPECT_TRUE(OwnKernelOf(owned.View(), correction)->front().below_own());
}

}  // namespace
}  // namespace kcc
