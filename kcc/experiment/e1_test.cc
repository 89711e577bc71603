#include "kcc/experiment/e1.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

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

// One clause that scored logits decide, and one that they cannot.
Contract SmallContract() {
  Contract contract;
  contract.name = "c";
  contract.version = "1.0.0";
  contract.slices = {Slice{"all", {}, {}}, SmallOptions().slices[0]};
  Clause kl;
  kl.id = "N-1";
  kl.metric = *ParseMetric("mean_kl");
  kl.threshold = 1e-6;
  kl.slices = {"all", "long"};
  kl.stages = {Stage::kOffline};
  Clause latency = kl;
  latency.id = "R-1";
  latency.metric = *ParseMetric("p95_latency_ms");
  contract.clauses = {kl, latency};
  return contract;
}

const E1Result& Small() {
  static const E1Result made = [] {
    auto result = RunE1(RandomCheckpoint(SmallConfig()), RandomRequests(4, 90, 2), SmallContract(),
                        SmallOptions());
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

TEST(E1, ReportsEveryPairInTheTemplate) {
  const E1Result& result = Small();
  const ExperimentReport report = E1Report(result);
  EXPECT_EQ(report.experiment, "e1");
  EXPECT_EQ(report.findings.size(), E1Findings(result).size());
  ASSERT_EQ(report.requests.size(), 1u);
  EXPECT_EQ(report.requests[0].requests, result.requests[0]);
  EXPECT_EQ(report.requests[0].tokens, result.tokens[0]);
  const auto& rates = std::get<PassRates>(report.pass_rates);
  ASSERT_EQ(rates.arms.size(), 2 + result.rows.size());
  ASSERT_EQ(report.arms.size(), rates.arms.size());
  ASSERT_EQ(report.kernels.size(), rates.arms.size());
  ASSERT_EQ(rates.not_judged.size(), 1u);
  EXPECT_EQ(rates.not_judged[0].clause, "R-1");
  // The training kernel keeps any contract with itself; the judge is asked all the same.
  EXPECT_EQ(report.arms[0].role, ArmRole::kBaseline);
  EXPECT_EQ(rates.arms[0].slices[0].total().satisfied, 1);
  const auto& work = std::get<std::vector<ArmCost>>(report.work);
  ASSERT_EQ(work.size(), rates.arms.size());
  std::set<std::string> fingerprints;
  for (size_t i = 0; i < result.rows.size(); ++i) {
    const E1Row& row = result.rows[i];
    const ReportedArm& arm = report.arms[2 + i];
    EXPECT_EQ(arm.name, row.name);
    EXPECT_EQ(arm.train, "lab:" + row.base);
    EXPECT_EQ(arm.infer, report.kernels[2 + i].name);
    fingerprints.insert(report.kernels[2 + i].fingerprint);
    EXPECT_EQ(work[2 + i].arm, row.name);
    EXPECT_TRUE(work[2 + i].figures[0].baseline.has_value());
    ASSERT_EQ(rates.arms[2 + i].slices.size(), 2u);
    EXPECT_EQ(rates.arms[2 + i].slices[0].total().judged(), 1);
  }
  EXPECT_EQ(fingerprints.size(), result.rows.size());
  EXPECT_TRUE(std::holds_alternative<NotMeasured>(report.quality));
  EXPECT_TRUE(std::holds_alternative<NotMeasured>(report.time));
  EXPECT_TRUE(std::holds_alternative<NotMeasured>(report.incidents));
}

TEST(E1, ContextsBeyondTheModelAreRefused) {
  E1Options options = SmallOptions();
  options.long_tokens = 500;
  const auto made =
      RunE1(RandomCheckpoint(SmallConfig()), RandomRequests(4, 90, 2), SmallContract(), options);
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message().find("512 positions"), std::string::npos);
}

}  // namespace
}  // namespace kcc
