// Thousands of slices: what is shown is limited, what counts is not.
#include "kcc/report/shown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/report/html.h"
#include "kcc/report/report_json.h"
#include "kcc/report/terminal.h"
#include "tests/report/sample/sample_report.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string SliceName(size_t i) { return "tenant-" + std::to_string(i); }

// The sample's clauses, each on `slices` slices that repeat its first one's verdict; details of
// all.
ReportData ManySlices(size_t slices) {
  ReportData report = SampleReport();
  const QuantitySlice row = report.quantities.at(0);
  const ReportHistogram histogram = report.histograms.at(0);
  for (ClauseVerdict& clause : report.judgement.clauses) {
    const SliceVerdict first = clause.slices.at(0);
    clause.verdict = first.verdict();
    clause.slices.assign(slices, first);
    for (size_t i = 0; i < slices; ++i) clause.slices[i].slice = SliceName(i);
  }
  for (size_t i = 0; i < slices; ++i) {
    report.quantities.push_back(row);
    report.quantities.back().slice = SliceName(i);
    report.histograms.push_back(histogram);
    report.histograms.back().slice = SliceName(i);
  }
  return report;
}

TEST(Shown, ASmallReportIsShownWhole) {
  for (const ReportData& report : {SampleReport(), LargeSample(), HostileSample()}) {
    EXPECT_EQ(ReportJson(ShownOnPage(report)), ReportJson(report));
  }
}

TEST(Shown, ThePageSaysWhatItLeavesOutAndKeepsTheTotals) {
  const ReportData report = ManySlices(2000);
  const VerdictTotals all = CountPairs(report.judgement);
  ASSERT_GT(static_cast<size_t>(all.all()), kPagePairsMax);
  const ReportData shown = ShownOnPage(report);
  const VerdictTotals here = CountPairs(shown.judgement);
  EXPECT_EQ(static_cast<size_t>(here.all()), kPagePairsMax);
  EXPECT_GT(all.of(Verdict::kViolated), 0);
  // Of every other clause its worst pair takes one place; the rest of the places are the violated.
  const auto places = static_cast<int64_t>(kPagePairsMax - shown.judgement.clauses.size());
  EXPECT_GE(here.of(Verdict::kViolated), std::min(all.of(Verdict::kViolated), places));
  for (const ClauseVerdict& clause : shown.judgement.clauses) EXPECT_FALSE(clause.slices.empty());
  const std::string page = ReportHtml(report);
  EXPECT_THAT(page, HasSubstr("this page shows 4,000 of"));
  EXPECT_THAT(page, HasSubstr(Headline(report.judgement)));
  EXPECT_THAT(page, HasSubstr("\"violated\":" + std::to_string(all.of(Verdict::kViolated))));
  EXPECT_LT(page.size(), size_t{6} << 20);
}

TEST(Shown, ThePageSaysThatSlicesHaveNoDetail) {
  ReportData report = SampleReport();
  report.slices_without_detail = 4901;
  EXPECT_THAT(ReportHtml(report), HasSubstr("charts and tables speak of"));
  EXPECT_THAT(ReportHtml(report), HasSubstr("4,901 further slices"));
}

TEST(Shown, ThePageGrowsWithWhatItShowsAlone) {
  EXPECT_LT(ReportHtml(ManySlices(20000)).size(), ReportHtml(ManySlices(2000)).size() + 10000);
}

TEST(Shown, TheMostSevereSlicesAreDetailed) {
  ReportData report = ManySlices(2000);
  for (ClauseVerdict& clause : report.judgement.clauses) {
    for (SliceVerdict& slice : clause.slices) slice.about.verdict = Verdict::kSatisfied;
  }
  report.judgement.clauses.back().slices[1234].about.verdict = Verdict::kViolated;
  report.judgement.clauses.back().slices[1999].about.verdict = Verdict::kInconclusive;
  std::vector<std::string> names = {"all"};
  for (size_t i = 0; i < 2000; ++i) names.push_back(SliceName(i));
  const std::set<std::string> detailed = DetailedSlices(report.judgement, names);
  EXPECT_EQ(detailed.size(), kDetailedSlicesMax);
  EXPECT_TRUE(detailed.contains("all"));
  EXPECT_TRUE(detailed.contains(SliceName(1234)));
  EXPECT_TRUE(detailed.contains(SliceName(1999)));
  EXPECT_THAT(ReportHtml(report), HasSubstr("\"slice\":\"tenant-1234\",\"verdict\":\"violated\""));
}

TEST(Shown, ReportJsonHasEveryVerdictOnOneLine) {
  ReportData report = ManySlices(2000);
  report.slices_without_detail = 7;
  report.judgement.convergent = false;
  const std::string json = ReportJson(report);
  for (const size_t i : {size_t{0}, size_t{1999}}) {
    EXPECT_THAT(json, HasSubstr("\n        {\"slice\":\"" + SliceName(i) + "\",\"verdict\":"));
  }
  EXPECT_THAT(json, HasSubstr("\"slicesWithoutDetail\": 7"));
  EXPECT_THAT(ReportJson(SampleReport()), Not(HasSubstr("slicesWithoutDetail")));
}

TEST(Shown, TheTerminalCountsWhatItLeavesOut) {
  const ReportData report = ManySlices(2000);
  const std::string text = ReportTerminal(report, {100, false, false});
  EXPECT_THAT(text, HasSubstr("… and 1,900 further slices not satisfied, 1,900 of them violated"));
  EXPECT_THAT(ReportTerminal(report, {100, false, true}), Not(HasSubstr("further slices not")));
}

}  // namespace
}  // namespace kcc
