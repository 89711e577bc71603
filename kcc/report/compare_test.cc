#include "kcc/report/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/report/report_json.h"
#include "tests/report/sample/sample_report.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

TEST(CompareReports, FindsNothingBetweenAReportAndItself) {
  const ReportData report = SampleReport();
  const ReportComparison comparison = CompareReports(report, *ReadReport(ReportJson(report)));
  EXPECT_TRUE(comparison.pairs.empty());
  EXPECT_EQ(comparison.unchanged, CountPairs(report.judgement).all());
  EXPECT_TRUE(comparison.same_contract());
  EXPECT_THAT(ComparisonTerminal(comparison, {}), HasSubstr("20 unchanged"));
}

TEST(CompareReports, TellsRegressionsImprovementsNewAndGone) {
  const ReportData before = ConvergentSample();
  ReportData after = SampleReport();
  after.judgement.clauses.pop_back();             // O-1 is gone
  after.judgement.clauses[7].id = "R-1-renamed";  // R-1 is gone, another is new
  const ReportComparison comparison = CompareReports(before, after);
  EXPECT_EQ(comparison.Count(PairChange::kRegressed), 3);  // N-1, S-2 and S-3, one slice each
  EXPECT_EQ(comparison.Count(PairChange::kImproved), 0);
  EXPECT_EQ(comparison.Count(PairChange::kGone), 3);
  EXPECT_EQ(comparison.Count(PairChange::kNew), 2);
  EXPECT_EQ(comparison.pairs.front().change, PairChange::kRegressed);
  EXPECT_EQ(comparison.pairs.front().clause, "N-1");
  EXPECT_EQ(comparison.pairs.front().slice, "long-context");
  EXPECT_EQ(comparison.pairs.front().worse, true);
  EXPECT_EQ(CompareReports(after, before).Count(PairChange::kImproved), 3);
}

TEST(CompareReports, CallsAMoveWorseByTheDirectionOfItsBound) {
  const struct {
    BoundKind bound;
    Interval before, after;
    std::optional<bool> worse;
  } cases[] = {
      {BoundKind::kAtMost, {1, 1}, {2, 2}, true},
      {BoundKind::kAtMost, {2, 2}, {1, 1}, false},
      {BoundKind::kAtLeast, {1, 1}, {2, 2}, false},
      {BoundKind::kAtLeast, {2, 2}, {1, 1}, true},
      {BoundKind::kAtMost, {1, 3}, {2, 2}, std::nullopt},  // narrower, neither way
      {BoundKind::kAtMost, {1, 3}, {1, 4}, true},
      {BoundKind::kAtMost, {}, {1, 1}, std::nullopt},
  };
  for (const auto& c : cases) {
    ReportData before = ConvergentSample();
    before.judgement.clauses.resize(1);
    ClauseVerdict& clause = before.judgement.clauses[0];
    clause.slices.resize(1);
    clause.bound = c.bound;
    ReportData after = before;
    clause.slices[0].value = c.before;
    after.judgement.clauses[0].slices[0].value = c.after;
    const ReportComparison comparison = CompareReports(before, after);
    ASSERT_EQ(comparison.pairs.size(), 1u);
    EXPECT_EQ(comparison.pairs[0].change, PairChange::kMoved);
    EXPECT_EQ(comparison.pairs[0].worse, c.worse);
  }
}

TEST(CompareReports, SaysThatTheContractChanged) {
  ReportData after = SampleReport();
  after.contract.digest = "sha256:other";
  const ReportComparison comparison = CompareReports(SampleReport(), after);
  EXPECT_THAT(ComparisonTerminal(comparison, {120, false, false}),
              HasSubstr("another digest under the same version"));
  EXPECT_THAT(ComparisonJson(comparison), HasSubstr("\"sameContract\": false"));
}

TEST(ComparisonMarkdown, ListsWhatChanged) {
  const std::string text = ComparisonMarkdown(CompareReports(ConvergentSample(), SampleReport()));
  EXPECT_THAT(text, HasSubstr("## ✅ satisfied → ❌ violated"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "| regressed | `N-1` | `p99_logit_linf` | `long-context` | satisfied → violated |"));
}

}  // namespace
}  // namespace kcc
