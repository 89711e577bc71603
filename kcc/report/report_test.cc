#include "kcc/report/report.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kcc/report/report_formats.h"
#include "kcc/report/report_json.h"
#include "tests/report/sample/sample_report.h"

namespace kcc {
namespace {

Judgement WithVerdicts(const std::vector<std::vector<Verdict>>& clauses) {
  Judgement judgement;
  for (const auto& verdicts : clauses) {
    ClauseVerdict clause;
    clause.verdict = Verdict::kSatisfied;
    for (const Verdict verdict : verdicts) {
      SliceVerdict slice;
      slice.about.verdict = verdict;
      clause.slices.push_back(slice);
      clause.verdict = std::max(clause.verdict, verdict);
    }
    judgement.clauses.push_back(clause);
  }
  return judgement;
}

TEST(Headline, SaysTheWorstFirst) {
  constexpr auto kS = Verdict::kSatisfied;
  constexpr auto kI = Verdict::kInconclusive;
  constexpr auto kE = Verdict::kError;
  constexpr auto kV = Verdict::kViolated;
  const struct {
    std::vector<std::vector<Verdict>> verdicts;
    const char* text;
  } cases[] = {
      {{}, "No clause of the contract applies at this stage."},
      {{{kS}}, "The one clause is satisfied on every slice it names."},
      {{{kS}, {kS, kS}}, "All 2 clauses are satisfied on every slice they name."},
      {{{kV, kV}, {kS}}, "1 of 2 clauses is violated, on 2 of 3 clause–slice pairs."},
      {{{kV}, {kV}, {kE}, {kI}, {kI}},
       "2 of 5 clauses are violated, on 2 of 5 clause–slice pairs; 1 clause is in error; 2 clauses "
       "are inconclusive."},
      {{{kI}, {kS}}, "1 of 2 clauses is inconclusive, on 1 of 2 clause–slice pairs."},
  };
  for (const auto& c : cases) EXPECT_EQ(Headline(WithVerdicts(c.verdicts)), c.text);
}

TEST(HealthText, FollowsTheTwoThresholds) {
  Judgement judgement;
  judgement.eta2 = 5;
  judgement.health = 0.5;
  EXPECT_EQ(HealthText(judgement), "no L2 or L3 clause is violated");
  judgement.health = 1;
  EXPECT_EQ(HealthText(judgement), "an L2 clause is violated, no L3 clause");
  judgement.health = 5;
  EXPECT_EQ(HealthText(judgement), "an L3 clause is violated");
}

ReportHistogram HistogramOver(std::vector<double> edges, std::vector<int64_t> counts) {
  return {"kl", "all", std::move(edges), std::move(counts), 0};
}

TEST(Coarsen, DropsEmptyEndsAndKeepsWhatFits) {
  const ReportHistogram h = Coarsen(HistogramOver({0, 1, 2, 3, 4}, {0, 5, 0, 0}), 8);
  EXPECT_EQ(h.edges, (std::vector<double>{1, 2}));
  EXPECT_EQ(h.counts, (std::vector<int64_t>{5}));
  const ReportHistogram none = Coarsen(HistogramOver({0, 1, 2}, {0, 0}), 8);
  EXPECT_TRUE(none.counts.empty() && none.edges.empty());
}

TEST(Coarsen, MergesNeighboursOfTheSameOctave) {
  const ReportHistogram h =
      Coarsen(HistogramOver({1, 1.25, 1.5, 1.75, 2, 3, 4, 8}, {1, 2, 3, 4, 5, 6, 7}), 4);
  EXPECT_EQ(h.edges, (std::vector<double>{1, 2, 4, 8}));
  EXPECT_EQ(h.counts, (std::vector<int64_t>{10, 11, 7}));
}

TEST(Coarsen, KeepsEveryValueInABucketThatHoldsIt) {
  ASSERT_TRUE(rc::check([](std::vector<double> values) {
    std::erase_if(values, [](double v) { return !std::isfinite(v); });
    RC_PRE(!values.empty());
    std::vector<double> edges = values;
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    edges.push_back(std::nextafter(edges.back(), INFINITY));
    std::vector<int64_t> counts(edges.size() - 1, 1);
    const ReportHistogram h = Coarsen(HistogramOver(edges, counts), 6);
    RC_ASSERT(h.counts.size() <= 6u);
    RC_ASSERT(h.edges.size() == h.counts.size() + 1);
    RC_ASSERT(std::is_sorted(h.edges.begin(), h.edges.end()));
    for (size_t i = 0; i < h.counts.size(); ++i) {
      const auto lo = std::lower_bound(edges.begin(), edges.end(), h.edges[i]);
      const auto hi = std::lower_bound(edges.begin(), edges.end(), h.edges[i + 1]);
      RC_ASSERT(h.counts[i] == hi - lo);
    }
  }));
}

TEST(Formats, GiveTheSameBytesForTheSameData) {
  for (const auto& make : {SampleReport, HostileSample, EmptySample}) {
    const ReportData a = make();
    const ReportData b = make();
    for (const ReportFormat& format : ReportFormats()) {
      EXPECT_EQ(format.write(a, {}), format.write(b, {})) << format.name;
    }
  }
}

// `kcc report` renders what `kcc run` would have rendered.
TEST(Formats, RenderAReportThatWasReadBackAsTheOneThatWasWritten) {
  for (const auto& make : {SampleReport, ConvergentSample, EmptySample}) {
    const ReportData made = make();
    const auto read = ReadReport(ReportJson(made));
    ASSERT_TRUE(read) << read.error().Format();
    for (const ReportFormat& format : ReportFormats()) {
      EXPECT_EQ(format.write(*read, {}), format.write(made, {})) << format.name;
    }
  }
}

}  // namespace
}  // namespace kcc
