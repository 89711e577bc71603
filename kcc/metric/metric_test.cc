#include "kcc/metric/metric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kcc/metric/catalog.h"
#include "kcc/metric/token_slots.h"

namespace kcc {
namespace {

TEST(Catalog, EveryRowIsCompleteAndUnique) {
  std::set<std::string_view> ids;
  for (const Quantity& row : Catalog()) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id;
    EXPECT_FALSE(row.definition.empty()) << row.id;
    EXPECT_FALSE(row.source.empty()) << row.id;
    EXPECT_LT(row.min, row.max) << row.id;
    EXPECT_EQ(FindQuantity(row.id), &row);
    EXPECT_EQ(&Catalog()[CatalogIndex(row)], &row);
    EXPECT_FALSE(row.id.starts_with("train_")) << row.id;
    const bool reads_fields = row.evidence == EvidenceNeeded::kRequestFields;
    // Those that the clause lists, or all that are known.
    const bool reads_none_by_name =
        row.counts == RequestCounts::kCoverage || row.counts == RequestCounts::kConformance;
    EXPECT_EQ(reads_fields && !reads_none_by_name, !row.fields.empty()) << row.id;
  }
}

TEST(ParseMetric, EveryMetricOfTheGrammarRoundTrips) {
  size_t count = 0;
  for (const Quantity& row : Catalog()) {
    for (const Side side : {Side::kInfer, Side::kTrain}) {
      if (side == Side::kTrain && !row.sided) continue;
      for (const Aggregate aggregate : Aggregates()) {
        const bool population = row.level == QuantityLevel::kPopulation;
        const Metric metric{&row, population ? Aggregate::kNone : aggregate, side};
        const auto parsed = ParseMetric(MetricName(metric));
        ASSERT_TRUE(parsed.has_value()) << MetricName(metric);
        EXPECT_EQ(*parsed, metric);
        ++count;
      }
    }
  }
  EXPECT_GT(count, 600u);
}

TEST(ParseMetric, AnOverlapWithoutAnAggregateIsItsMean) {
  for (const std::string name : {"top1_overlap", "top5_overlap", "top10_overlap"}) {
    const auto bare = ParseMetric(name);
    ASSERT_TRUE(bare.has_value()) << name;
    EXPECT_EQ(*bare, *ParseMetric("mean_" + name));
    EXPECT_EQ(MetricName(*bare), "mean_" + name);
  }
  for (const Quantity& row : Catalog()) {
    const bool bare = row.level == QuantityLevel::kPopulation || row.bare_mean;
    EXPECT_EQ(ParseMetric(row.id).has_value(), bare) << row.id;
  }
}

TEST(ParseMetric, ARateMayHaveAnotherName) {
  const auto rate = ParseMetric("same_output_rate");
  ASSERT_TRUE(rate.has_value());
  EXPECT_EQ(*rate, *ParseMetric("rate_same_output"));
  EXPECT_EQ(MetricName(*rate), "rate_same_output");
  EXPECT_EQ(MetricDirection(*rate), Direction::kHigherIsBetter);
  EXPECT_FALSE(ParseMetric("mean_same_output_rate").has_value());
}

TEST(MetricNames, AreAllThatParse) {
  const std::vector<std::string> names = MetricNames();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) EXPECT_TRUE(ParseMetric(name).has_value()) << name;
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"top5_overlap", "mean_top5_overlap", "ece_gap", "p95_train_latency_ms"}));
}

TEST(ParseMetric, SaysWhatIsWrong) {
  struct Case {
    const char* name;
    const char* message;
  };
  for (const auto& [name, message] : {
           Case{"p99_logit_linff", "did you mean 'p99_logit_linf'?"},
           Case{"p98_kl", "did you mean 'p9"},
           Case{"kl", "put an aggregate before it, such as 'mean_kl'"},
           Case{"top5_overlp", "did you mean 'top5_overlap'?"},
           Case{"train_top5_overlap", "no train_ form; write 'top5_overlap'"},
           Case{"train_entropy", "such as 'mean_train_entropy'"},
           Case{"mean_ece_gap", "takes no aggregate; write 'ece_gap'"},
           Case{"mean_train_kl", "no train_ form; write 'mean_kl'"},
           Case{"train_ece_gap", "no train_ form; write 'ece_gap'"},
           Case{"", "unknown metric ''"},
           Case{"quite_another_thing", "`kcc metrics` lists every quantity"},
       }) {
    const auto parsed = ParseMetric(name);
    ASSERT_FALSE(parsed.has_value()) << name;
    EXPECT_THAT(parsed.error().message(), testing::HasSubstr(message));
  }
}

TEST(Metric, RangesAndDirections) {
  const auto metric = [](const char* name) { return ParseMetric(name).value(); };
  EXPECT_EQ(MetricMax(metric("p99_tv")), 1.0);
  EXPECT_EQ(MetricMax(metric("rate_kl")), 1.0);
  EXPECT_EQ(MetricMin(metric("rate_log_ratio")), 0.0);
  EXPECT_EQ(MetricDirection(metric("rate_log_ratio")), Direction::kLowerIsBetter);
  EXPECT_EQ(MetricDirection(metric("mean_log_ratio")), Direction::kSigned);
  EXPECT_EQ(MetricDirection(metric("mean_top5_overlap")), Direction::kHigherIsBetter);
  EXPECT_EQ(PercentilePpm(Aggregate::kP999), 999000);
  EXPECT_EQ(PercentilePpm(Aggregate::kMean), -1);
}

TEST(TokenSlots, NumberEveryTokenQuantityAndSideOnce) {
  std::set<std::string> names;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    EXPECT_TRUE(names.insert(SlotName(slot)).second);
    EXPECT_EQ(TokenSlot(SlotQuantity(slot), SlotSide(slot)), slot);
    EXPECT_EQ(TokenSlot(SlotName(slot)), slot);
    EXPECT_EQ(SlotQuantity(slot).level, QuantityLevel::kToken);
  }
  EXPECT_TRUE(names.contains("train_entropy"));
  EXPECT_FALSE(names.contains("train_kl"));
}

}  // namespace
}  // namespace kcc
