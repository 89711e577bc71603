#include "kcc/experiment/e1.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kcc/lab/lab_test_data.h"

namespace kcc {
namespace {

using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::SmallConfig;

E1Options SmallOptions() {
  E1Options options;
  options.long_requests = 2;
  options.long_tokens = 120;
  const auto predicate = Predicate::Parse("prompt_tokens >= 100");
  EXPECT_TRUE(predicate.has_value());
  options.slices = {Slice{"long", *predicate, {}}};
  return options;
}

const E1Result& Small() {
  static const E1Result made = [] {
    auto result = RunE1(RandomCheckpoint(SmallConfig()), RandomRequests(4, 90, 2), SmallOptions());
    EXPECT_TRUE(result.has_value()) << result.error().Format();
    return std::move(*result);
  }();
  return made;
}

TEST(E1, NoPerturbationIsIdleAndNoneLeavesItsEnvelope) {
  for (const E1Row& row : Small().rows) {
    EXPECT_GT(row.linf_max, 0) << row.name;
    EXPECT_LE(row.linf_max, row.envelope) << row.name;
    EXPECT_GT(row.typical, 0) << row.name;
    EXPECT_NE(row.source, ErrorSource::kNone) << row.name;
  }
}

TEST(E1, EverySliceHasItsOwnDistributionsAndCurves) {
  const E1Result& result = Small();
  ASSERT_EQ(result.slices, (std::vector<std::string>{"all", "long"}));
  EXPECT_EQ(result.requests[0], 6);
  EXPECT_EQ(result.requests[1], 2);
  for (const E1Row& row : result.rows) {
    for (size_t s = 0; s < 2; ++s) {
      const E1Slice& slice = row.by_slice[s];
      for (const Distribution& d : slice.drift) {
        EXPECT_LE(d.p50, d.p95);
        EXPECT_LE(d.p95, d.p99);
        EXPECT_LE(d.p99, d.max);
        EXPECT_EQ(std::accumulate(d.histogram.begin(), d.histogram.end(), d.zeros),
                  result.tokens[s])
            << row.name;
      }
      ASSERT_EQ(slice.curve.size(), kMarginPoints);
      for (size_t i = 1; i < slice.curve.size(); ++i) {
        EXPECT_GE(slice.curve[i].top1, slice.curve[i - 1].top1);
        EXPECT_GE(slice.curve[i].top5, slice.curve[i - 1].top5);
        EXPECT_LE(slice.curve[i].top1, 1);
      }
    }
  }
  // The long slice is a part of all, not a copy.
  EXPECT_NE(result.rows[9].by_slice[0].drift[3].p99, result.rows[9].by_slice[1].drift[3].p99);
}

TEST(E1, ATopTokenChangesOnlyWithinTheSpan) {
  for (const E1Row& row : Small().rows) {
    EXPECT_LE(row.flip_margin_max, row.flip_span_max) << row.name;
  }
}

TEST(E1, FindingsCanFail) {
  E1Result result = Small();
  for (const Finding& finding : E1Findings(result)) {
    if (finding.predicted.find("never exceeded") == std::string::npos) continue;
    EXPECT_TRUE(finding.holds) << finding.seen;
  }
  result.rows[0].linf_max = 2 * result.rows[0].envelope;
  for (E1Row& row : result.rows) {
    row.flip_margin_max = 2;
    row.flip_span_max = 1;
    for (E1Slice& slice : row.by_slice) slice.drift[3].p99 = slice.drift[0].p50 = 0.5;
  }
  for (const Finding& finding : E1Findings(result)) {
    EXPECT_FALSE(finding.holds) << finding.predicted;
  }
}

TEST(E1, PageMarkdownAndFiguresNameEveryPerturbationAndSlice) {
  const E1Result& result = Small();
  const std::string page = E1Page(result);
  const std::string table = E1Markdown(result);
  const std::string figures = E1Json(result);
  for (const E1Row& row : result.rows) {
    for (const std::string* text : {&page, &table, &figures}) {
      EXPECT_NE(text->find(row.name), std::string::npos) << row.name;
    }
  }
  EXPECT_EQ(page, E1Page(result));
  EXPECT_NE(page.find("<summary>long "), std::string::npos);
  EXPECT_EQ(page.find("http:"), std::string::npos);
}

TEST(E1, ContextsBeyondTheModelAreRefused) {
  E1Options options = SmallOptions();
  options.long_tokens = 500;
  const auto made = RunE1(RandomCheckpoint(SmallConfig()), RandomRequests(4, 90, 2), options);
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message().find("512 positions"), std::string::npos);
}

}  // namespace
}  // namespace kcc
