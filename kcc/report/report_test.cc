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

ClauseVerdict ViolatedOn(const std::string& id, ViolationLevel level, const std::string& slice,
                         double value, double threshold) {
  ClauseVerdict clause;
  clause.id = id;
  clause.metric = "mean_kl";
  clause.level = level;
  clause.verdict = Verdict::kViolated;
  clause.slices.resize(1);
  clause.slices[0].slice = slice;
  clause.slices[0].about.verdict = Verdict::kViolated;
  clause.slices[0].value = {value, value};
  clause.slices[0].threshold = threshold;
  return clause;
}

TEST(WorstText, NamesTheGravestLevelThenTheFarthestBeyond) {
  Judgement judgement;
  EXPECT_EQ(WorstText(judgement), "");
  judgement.clauses = {ViolatedOn("N-1", ViolationLevel::kL2, "code", 9, 1),
                       ViolatedOn("N-2", ViolationLevel::kL3, "safety", 0.02, 0.01),
                       ViolatedOn("N-3", ViolationLevel::kL3, "long", 0.0435912, 0.015)};
  EXPECT_EQ(WorstText(judgement),
            "Worst on long: mean_kl is 0.04359, 2.9 times its limit of 0.015 (N-3).");
  EXPECT_DOUBLE_EQ(*FindWorstPair(judgement)->factor, 0.0435912 / 0.015);
  judgement.clauses = {ViolatedOn("N-1", ViolationLevel::kL2, "code", 1.0001, 1)};
  EXPECT_EQ(WorstText(judgement), "Worst on code: mean_kl is 1, 1.01 times its limit of 1 (N-1).");
}

TEST(WorstText, SaysThatTheAverageHidesIt) {
  Judgement judgement;
  judgement.clauses = {ViolatedOn("N-1", ViolationLevel::kL3, "long", 3, 1)};
  SliceVerdict all;
  all.slice = "all";
  all.about.verdict = Verdict::kSatisfied;
  judgement.clauses[0].slices.push_back(all);
  EXPECT_EQ(
      WorstText(judgement),
      "Worst on long: mean_kl is 3, 3 times its limit of 1 (N-1). On all requests N-1 holds.");
}

TEST(WorstText, ReadsForEveryKindOfLimit) {
  Judgement judgement;
  judgement.clauses = {ViolatedOn("S-1", ViolationLevel::kL3, "long", 0.8472, 0.9)};
  ClauseVerdict& clause = judgement.clauses[0];
  clause.metric = "mean_top5_overlap";
  clause.bound = BoundKind::kAtLeast;
  EXPECT_EQ(WorstText(judgement),
            "Worst on long: mean_top5_overlap is 0.8472, 1.5 times as far down as its limit of 0.9 "
            "allows (S-1).");
  clause = ViolatedOn("N-1", ViolationLevel::kL3, "long", 3, 0);
  EXPECT_EQ(WorstText(judgement), "Worst on long: mean_kl is 3, beyond its limit of 0 (N-1).");
  clause.hard = false;
  clause.slices[0].threshold = 1;
  clause.slices[0].exceedance = ExceedanceCount{100, 6, 0.02};
  EXPECT_EQ(WorstText(judgement),
            "Worst on long: mean_kl: 6% of the windows are beyond 1, 3 times its budget of 2% "
            "(N-1).");
}

TEST(KernelName, IsTheFingerprintUnlessThatIsLong) {
  KernelProvenance kernel{"vllm-0.18/fp8", "", ""};
  EXPECT_EQ(KernelName(kernel, "traces/vllm"), "vllm-0.18/fp8");
  kernel.fingerprint = std::string(80, 'x');
  EXPECT_EQ(KernelName(kernel, "lab:fp8"), "lab:fp8");
  EXPECT_EQ(KernelName(kernel, ""), std::string(47, 'x') + "…");
  EXPECT_EQ(KernelName({}, ""), "unnamed");
}

TEST(RiskText, DoesNotCallUnmeasuredGood) {
  Judgement judgement;
  EXPECT_EQ(RiskText(judgement), "Risk unknown: nothing was measured");
  judgement.clauses = {ViolatedOn("N-1", ViolationLevel::kL3, "long", 3, 1)};
  judgement.health = 31.06;
  EXPECT_EQ(RiskText(judgement), "Risk 31.06 (0 is good): an L3 clause is violated");
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
