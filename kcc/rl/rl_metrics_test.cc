#include "kcc/rl/rl_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kcc/rl/rl_test_data.h"

namespace kcc {
namespace {

using testing::NoisyBatch;
using testing::OwnedBatch;

RlFigures FiguresOf(const OwnedBatch& batch) {
  auto figures = DiagnoseRl(batch.View());
  EXPECT_TRUE(figures.has_value());
  return std::move(*figures);
}

TEST(RlMetrics, EveryNameOfEitherVersionMeansOneMetric) {
  RlFigures figures;
  figures.has_advantages = figures.has_old = true;
  std::set<std::string> names, older;
  for (const RlMetric& metric : RlMetrics(figures)) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
    EXPECT_TRUE(older.insert(metric.version1).second) << metric.version1;
  }
  // An older name that another metric has today would judge the wrong number.
  for (const RlMetric& metric : RlMetrics(figures)) {
    EXPECT_TRUE(metric.name == metric.version1 || !names.contains(metric.version1))
        << metric.version1;
  }
}

TEST(RlMetrics, ClausesAreJudgedAlikeByEitherName) {
  const RlFigures figures = FiguresOf(NoisyBatch(40, 12, 0.1, 5));
  for (const RlMetric& metric : RlMetrics(figures)) {
    const RlClause clauses[] = {{metric.name, 0.01}, {metric.version1, 0.01}};
    const auto judged = JudgeRl(figures, clauses);
    ASSERT_TRUE(judged.has_value()) << judged.error().Format();
    EXPECT_EQ((*judged)[0].metric, metric.name);
    EXPECT_EQ((*judged)[1].metric, metric.name);
    EXPECT_EQ((*judged)[0].verdict, (*judged)[1].verdict) << metric.name;
    EXPECT_EQ((*judged)[0].reason, (*judged)[1].reason) << metric.name;
    EXPECT_EQ((*judged)[0].certified, (*judged)[1].certified) << metric.name;
  }
}

TEST(RlMetrics, NothingIsSatisfiedOnNoTokenWhateverTheMetric) {
  const auto figures = RlSummary().Figures();
  ASSERT_TRUE(figures.has_value());
  for (const RlMetric& metric : RlMetrics(*figures)) {
    for (const bool at_least : {false, true}) {
      const RlClause clause = {metric.name, at_least ? -1e300 : 1e300, at_least};
      const auto judged = JudgeRl(*figures, std::span(&clause, 1));
      ASSERT_TRUE(judged.has_value());
      EXPECT_EQ((*judged)[0].verdict, RlVerdict::kInconclusive) << metric.name;
      EXPECT_EQ((*judged)[0].reason, RlReason::kNoToken) << metric.name;
    }
  }
}

TEST(RlJudge, CertifiesTvAndComparesTheRest) {
  const OwnedBatch batch = NoisyBatch(3000, 8, 0.05, 21);
  const auto figures = DiagnoseRl(batch.View());
  ASSERT_TRUE(figures.has_value());
  const double tv = figures->tv_rows;
  struct Case {
    RlClause clause;
    RlVerdict verdict;
    bool certified;
  };
  for (const Case& c : {Case{{"row.mean_tv", tv * 3}, RlVerdict::kSatisfied, true},
                        Case{{"row.mean_tv", tv / 3}, RlVerdict::kViolated, true},
                        Case{{"row.mean_tv", tv}, RlVerdict::kInconclusive, true},
                        Case{{"token.mean_k3", 1.0}, RlVerdict::kSatisfied, false},
                        Case{{"token.ess", 0.99999999, true}, RlVerdict::kViolated, false}}) {
    const auto judged = JudgeRl(*figures, std::span(&c.clause, 1));
    ASSERT_TRUE(judged.has_value());
    EXPECT_EQ((*judged)[0].verdict, c.verdict) << c.clause.metric;
    EXPECT_EQ((*judged)[0].certified, c.certified);
  }
  const RlClause typo = {"token.k4", 1};
  const auto judged = JudgeRl(*figures, std::span(&typo, 1));
  ASSERT_FALSE(judged.has_value());
  EXPECT_NE(judged.error().message().find("token.k"), std::string::npos);
  const RlClause clause = {"row.mean_tv", 1};
  EXPECT_EQ((*JudgeRl(*RlSummary().Figures(), std::span(&clause, 1)))[0].verdict,
            RlVerdict::kInconclusive);
}

TEST(RlJudge, AFewHundredRowsShowThatATinyTvIsBelowTheThreshold) {
  // Rows of tokens with w = 0.998 and 1: their (1 - w)+ has mean 0.001.
  OwnedBatch batch;
  batch.rows = 900;
  batch.columns = 8;
  batch.train.assign(900 * 8, -1);
  batch.rollout = batch.train;
  for (size_t i = 0; i < batch.train.size(); i += 2) batch.train[i] += std::log1p(-0.002);
  const auto figures = DiagnoseRl(batch.View());
  ASSERT_TRUE(figures.has_value());
  EXPECT_NEAR(figures->tv_rows, 0.001, 1e-12);
  const RlClause clause = {"row.mean_tv", 0.01};
  EXPECT_EQ((*JudgeRl(*figures, std::span(&clause, 1)))[0].verdict, RlVerdict::kSatisfied);
  const RlClause below = {"row.mean_tv", 0.0001};
  EXPECT_EQ((*JudgeRl(*figures, std::span(&below, 1)))[0].verdict, RlVerdict::kViolated);
}

}  // namespace
}  // namespace kcc
