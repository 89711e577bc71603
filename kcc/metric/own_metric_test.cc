#include "kcc/metric/own_metric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "kcc/metric/metric.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

OwnMetric Queue() {
  OwnMetric metric{"queue_ms", QuantityLevel::kRequest, *Expression::Parse("latency_ms - ttft_ms"),
                   Unit::kMs, Direction::kLowerIsBetter};
  metric.min = 0;
  return metric;
}

TEST(OwnRow, HasTheColumnsOfTheDefinition) {
  const Quantity& row = **OwnRow(Queue());
  EXPECT_EQ(row.id, "queue_ms");
  EXPECT_EQ(row.unit, Unit::kMs);
  EXPECT_EQ(row.level, QuantityLevel::kRequest);
  EXPECT_EQ(row.observation, Observation::kRequest);
  EXPECT_EQ(row.taken, TakenFrom::kExpression);
  EXPECT_EQ(row.definition, "latency_ms - ttft_ms");
  EXPECT_EQ(row.fields, "latency_ms ttft_ms");
  EXPECT_EQ(row.min, 0);
  EXPECT_TRUE(row.sided);
  EXPECT_TRUE(row.on_demand);
  EXPECT_TRUE(OfWholeRequests(row));
  ASSERT_NE(row.own, nullptr);
  for (const Quantity& built_in : Catalog()) EXPECT_EQ(built_in.own, nullptr) << built_in.id;
}

TEST(OwnRow, OfTokensIsNotOfWholeRequests) {
  OwnMetric metric = Queue();
  metric.of = QuantityLevel::kToken;
  metric.from = *Expression::Parse("-token.logprob");
  const Quantity& row = **OwnRow(metric);
  EXPECT_EQ(row.level, QuantityLevel::kToken);
  EXPECT_EQ(row.observation, Observation::kToken);
  EXPECT_FALSE(OfWholeRequests(row));
}

TEST(OwnRow, IsOnePerDefinition) {
  const Quantity* row = *OwnRow(Queue());
  OwnMetric respelt = Queue();
  respelt.from = *Expression::Parse("(latency_ms)-ttft_ms");
  EXPECT_EQ(*OwnRow(respelt), row);

  // Each difference alone makes another row.
  std::vector<OwnMetric> others(7, Queue());
  others[0].name = "queue2_ms";
  others[1].from = *Expression::Parse("latency_ms - ttft_ms - 1");
  others[2].unit = Unit::kPure;
  others[3].direction = Direction::kSigned;
  others[4].min = -1;
  others[5].max = 1000;
  others[6].version = "2";
  std::set<const Quantity*> rows = {row};
  for (const OwnMetric& other : others) rows.insert(*OwnRow(other));
  EXPECT_EQ(rows.size(), others.size() + 1);
}

TEST(OwnRow, IsOneForAllThreads) {
  std::vector<const Quantity*> rows(8);
  std::vector<std::thread> threads;
  for (const Quantity*& row : rows) {
    threads.emplace_back([&row] {
      OwnMetric metric = Queue();
      metric.version = "threads";
      row = *OwnRow(metric);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Quantity* row : rows) EXPECT_EQ(row, rows[0]);
}

struct NameCase {
  std::string name;
  std::string why;  // empty: well
};

class OwnName : public testing::TestWithParam<NameCase> {};

TEST_P(OwnName, IsCheckedAgainstWhatMetricsMean) {
  const Result<> checked = CheckOwnName(GetParam().name);
  EXPECT_EQ(checked.has_value(), GetParam().why.empty()) << GetParam().name;
  if (!checked) {
    EXPECT_THAT(checked.error().message(), HasSubstr(GetParam().why));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, OwnName,
    testing::Values(NameCase{"tool_errors", ""}, NameCase{"x", ""}, NameCase{"meaning", ""},
                    NameCase{"training_cost", ""}, NameCase{"p95ish", ""},
                    NameCase{"", "lower-case letters"}, NameCase{"Tool", "lower-case letters"},
                    NameCase{"9lives", "lower-case letters"}, NameCase{"a-b", "lower-case letters"},
                    NameCase{std::string(65, 'a'), "at most 64"}, NameCase{"kl", "measures itself"},
                    NameCase{"latency_ms", "measures itself"},
                    NameCase{"ece_gap", "measures itself"},
                    NameCase{"same_output_rate", "measures itself"},
                    NameCase{"mean_cost", "'mean_'"}, NameCase{"p95_cost", "'p95_'"},
                    NameCase{"rate_x", "'rate_'"}, NameCase{"max", "'max_'"},
                    NameCase{"train_cost", "'train_'"}, NameCase{"mc_cost", "'mc_'"}));

TEST(OwnRow, RefusesWhatNoContractMayHold) {
  OwnMetric metric = Queue();
  metric.of = QuantityLevel::kToken;
  EXPECT_THAT(OwnRow(metric).error().message(), HasSubstr("of: request"));
  metric = Queue();
  metric.from = *Expression::Parse("token.logprob");
  EXPECT_THAT(OwnRow(metric).error().message(), HasSubstr("of: token"));
  metric = Queue();
  metric.max = 0;
  EXPECT_THAT(OwnRow(metric).error().message(), HasSubstr("not below max"));
  metric = Queue();
  metric.version = "two words";
  EXPECT_THAT(OwnRow(metric).error().message(), HasSubstr("version"));
}

TEST(ParseMetric, KnowsOwnMetricsWithEveryAggregateAndSide) {
  const std::vector<const Quantity*> own = {*OwnRow(Queue())};
  for (const Aggregate aggregate : Aggregates()) {
    for (const Side side : {Side::kInfer, Side::kTrain}) {
      const Metric metric{own[0], aggregate, side};
      const Result<Metric> parsed = ParseMetric(MetricName(metric), own);
      ASSERT_TRUE(parsed.has_value()) << MetricName(metric);
      EXPECT_EQ(*parsed, metric);
    }
  }
  EXPECT_FALSE(ParseMetric("p95_queue_ms").has_value());
  EXPECT_THAT(ParseMetric("queue_ms", own).error().message(), HasSubstr("put an aggregate"));
  EXPECT_THAT(ParseMetric("p95_quue_ms", own).error().message(),
              HasSubstr("did you mean 'p95_queue_ms'?"));
  EXPECT_EQ(MetricNames(own).size(), MetricNames().size() + 2 * Aggregates().size());
}

}  // namespace
}  // namespace kcc
