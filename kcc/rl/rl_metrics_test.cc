#include "kcc/rl/rl_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kcc/rl/rl_test_data.h"

namespace kcc {
namespace {

using testing::NoisyBatch;
using testing::OwnedBatch;

RlMetrics MetricsOf(const OwnedBatch& batch) {
  auto metrics = DiagnoseRl(batch.View());
  EXPECT_TRUE(metrics.has_value());
  return std::move(*metrics);
}

TEST(RlMetrics, EveryNameOfEitherVersionMeansOneMetric) {
  RlMetrics metrics;
  metrics.has_advantages = metrics.has_old = true;
  std::set<std::string> names, older;
  for (const RlNamedMetric& metric : NamedMetrics(metrics)) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
    EXPECT_TRUE(older.insert(metric.version1).second) << metric.version1;
  }
  // An older name that another metric has today would judge the wrong number.
  for (const RlNamedMetric& metric : NamedMetrics(metrics)) {
    EXPECT_TRUE(metric.name == metric.version1 || !names.contains(metric.version1))
        << metric.version1;
  }
}

TEST(RlMetrics, ClausesAreJudgedAlikeByEitherName) {
  const RlMetrics metrics = MetricsOf(NoisyBatch(40, 12, 0.1, 5));
  for (const RlNamedMetric& metric : NamedMetrics(metrics)) {
    const RlClause clauses[] = {{metric.name, 0.01}, {metric.version1, 0.01}};
    const auto judged = JudgeRl(metrics, clauses);
    ASSERT_TRUE(judged.has_value()) << judged.error().Format();
    EXPECT_EQ((*judged)[0].metric, metric.name);
    EXPECT_EQ((*judged)[1].metric, metric.name);
    EXPECT_EQ((*judged)[0].verdict, (*judged)[1].verdict) << metric.name;
    EXPECT_EQ((*judged)[0].reason, (*judged)[1].reason) << metric.name;
    EXPECT_EQ((*judged)[0].certified, (*judged)[1].certified) << metric.name;
  }
}

TEST(RlMetrics, NothingIsSatisfiedOnNoTokenWhateverTheMetric) {
  const auto metrics = RlSummary().Metrics();
  ASSERT_TRUE(metrics.has_value());
  for (const RlNamedMetric& metric : NamedMetrics(*metrics)) {
    for (const bool at_least : {false, true}) {
      const RlClause clause = {metric.name, at_least ? -1e300 : 1e300, at_least};
      const auto judged = JudgeRl(*metrics, std::span(&clause, 1));
      ASSERT_TRUE(judged.has_value());
      EXPECT_EQ((*judged)[0].verdict, RlVerdict::kInconclusive) << metric.name;
      EXPECT_EQ((*judged)[0].reason, RlReason::kNoToken) << metric.name;
    }
  }
}

TEST(RlJudge, CertifiesTvAndComparesTheRest) {
  const OwnedBatch batch = NoisyBatch(3000, 8, 0.05, 21);
  const auto metrics = DiagnoseRl(batch.View());
  ASSERT_TRUE(metrics.has_value());
  const double tv = metrics->tv_rows;
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
    const auto judged = JudgeRl(*metrics, std::span(&c.clause, 1));
    ASSERT_TRUE(judged.has_value());
    EXPECT_EQ((*judged)[0].verdict, c.verdict) << c.clause.metric;
    EXPECT_EQ((*judged)[0].certified, c.certified);
  }
  const RlClause typo = {"token.k4", 1};
  const auto judged = JudgeRl(*metrics, std::span(&typo, 1));
  ASSERT_FALSE(judged.has_value());
  EXPECT_NE(judged.error().message().find("token.k"), std::string::npos);
  const RlClause clause = {"row.mean_tv", 1};
  EXPECT_EQ((*JudgeRl(*RlSummary().Metrics(), std::span(&clause, 1)))[0].verdict,
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
  const auto metrics = DiagnoseRl(batch.View());
  ASSERT_TRUE(metrics.has_value());
  EXPECT_NEAR(metrics->tv_rows, 0.001, 1e-12);
  const RlClause clause = {"row.mean_tv", 0.01};
  EXPECT_EQ((*JudgeRl(*metrics, std::span(&clause, 1)))[0].verdict, RlVerdict::kSatisfied);
  const RlClause below = {"row.mean_tv", 0.0001};
  EXPECT_EQ((*JudgeRl(*metrics, std::span(&below, 1)))[0].verdict, RlVerdict::kViolated);
}

}  // namespace
}  // namespace kcc
