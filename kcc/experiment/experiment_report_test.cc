#include "kcc/experiment/experiment_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/base/file.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The identity alone: nothing was measured.
ExperimentReport BareReport() {
  ExperimentReport report;
  report.experiment = "e9";
  report.contract = {"c", "1.0.0", "sha256:" + std::string(64, 'c')};
  report.model_digest = "sha256:a0";
  report.requests = {{"all", "sha256:" + std::string(64, 'b'), 2, 1500}};
  report.kernels = {{"lab:train", "print <t>", {{"kv", "f32"}}}, {"lab:fp8", "print f", {}}};
  report.arms = {{"train", ArmRole::kBaseline, "lab:train", "lab:train"},
                 {"fp8", ArmRole::kCandidate, "lab:train", "lab:fp8"}};
  report.pass_rates = NotMeasured{"no clause"};
  report.quality = NotMeasured{"no answer"};
  report.work = NotMeasured{"no engine"};
  report.time = NotMeasured{"no clock"};
  report.incidents = NotMeasured{"no <traffic>"};
  report.findings = {{"it drifts", "by 2", true}};
  return report;
}

SliceVerdict VerdictOf(const char* slice, Verdict verdict, int64_t requests) {
  SliceVerdict made;
  made.slice = slice;
  made.about.verdict = verdict;
  made.count.requests = requests;
  return made;
}

ArmPass PassOf(const char* arm) {
  Judgement judgement;
  ClauseVerdict clause;
  clause.id = "N-1";
  clause.slices = {VerdictOf("all", Verdict::kSatisfied, 2),
                   VerdictOf("long", Verdict::kInconclusive, 0)};
  judgement.clauses = {clause};
  clause.id = "N-2";
  clause.slices = {VerdictOf("all", Verdict::kViolated, 2)};
  judgement.clauses.push_back(clause);
  ArmPass made{arm, 0, {}};
  made.Add(judgement);
  return made;
}

// Every part.
ExperimentReport FullReport() {
  ExperimentReport report = BareReport();
  const Estimate estimate{0.5, {0.25, 0.75}, 0.95, "bootstrap", 40};
  report.pass_rates = PassRates{{PassOf("train"), PassOf("fp8")}, {{"O-1", "no trace"}}};
  report.quality = std::vector<QualityFigure>{{"reward", "", "fp8", "all", estimate, {}},
                                              {"reward", "", "train", "all", estimate, estimate}};
  report.work = std::vector<ArmCost>{{"train", "", {{"steps", "", 1200, {}}}},
                                     {"fp8", "loaded", {{"steps", "", 1500, 1200}}}};
  report.time = std::vector<ArmCost>{{"fp8", "", {{"latency", "ms", 2.5, 3}}}};
  report.incidents = std::vector<IncidentFigures>{{"fp8", 3, 2, 1, 2, 1, "requests", estimate, {}}};
  return report;
}

std::string JsonOf(const ExperimentReport& report,
                   JsonWriter::Style style = JsonWriter::Style::kPretty) {
  JsonWriter json(style);
  json.BeginObject();
  WriteExperimentReport(report, &json);
  return json.EndObject().Take();
}

// tests/lab validates both files against the schema.
TEST(ExperimentReport, IsWrittenByteForByteAsInTheSamples) {
  const std::pair<const char*, ExperimentReport> samples[] = {{"bare", BareReport()},
                                                              {"full", FullReport()}};
  for (const auto& [name, report] : samples) {
    const auto committed =
        ReadFile("tests/data/experiment/" + std::string(name) + ".json", 1 << 20);
    ASSERT_TRUE(committed) << committed.error().Format();
    EXPECT_EQ(JsonOf(report), *committed) << name;
  }
}

TEST(ExperimentReport, WhatIsNotMeasuredIsNullWithItsReason) {
  const std::string bare = JsonOf(BareReport(), JsonWriter::Style::kCompact);
  EXPECT_THAT(bare,
              HasSubstr(R"("passRates":null,"quality":null,"runtimeWork":null,"runtimeTime":null,)"
                        R"("incidents":null,"notMeasured":{"passRates":"no clause",)"
                        R"("quality":"no answer","runtimeWork":"no engine",)"
                        R"("runtimeTime":"no clock","incidents":"no <traffic>"}})"));
  EXPECT_THAT(JsonOf(FullReport(), JsonWriter::Style::kCompact), HasSubstr(R"("notMeasured":{})"));
}

// Nothing judged is no pass rate of 0, and no pass rate of 1 either.
TEST(ExperimentReport, ASliceWithoutEvidenceIsCountedApart) {
  const ArmPass pass = PassOf("fp8");
  ASSERT_EQ(pass.slices.size(), 2u);
  const VerdictCounts all = pass.slices[0].total();
  EXPECT_EQ(all.judged(), 2);
  EXPECT_EQ(all.share(), 0.5);
  const VerdictCounts empty = pass.slices[1].total();
  EXPECT_EQ(empty.judged(), 0);
  EXPECT_EQ(empty.empty, 1);
  EXPECT_EQ(empty.share(), std::nullopt);
  EXPECT_THAT(JsonOf(FullReport(), JsonWriter::Style::kCompact),
              HasSubstr(R"("empty":1,"share":null)"));
}

TEST(ExperimentReport, WhatIsOpenHasNotPassed) {
  VerdictCounts counts;
  counts.Add(VerdictOf("all", Verdict::kSatisfied, 1));
  counts.Add(VerdictOf("all", Verdict::kInconclusive, 1));
  counts.Add(VerdictOf("all", Verdict::kError, 0));
  counts.Add(VerdictOf("all", Verdict::kViolated, 1));
  EXPECT_EQ(counts.judged(), 4);
  EXPECT_EQ(counts.share(), 0.25);
}

TEST(ExperimentReport, RegimesOfAnArmAddUp) {
  ArmPass pass = PassOf("fp8");
  Judgement judgement;
  ClauseVerdict clause;
  clause.id = "N-1";
  clause.slices = {VerdictOf("long", Verdict::kSatisfied, 1)};
  judgement.clauses = {clause};
  pass.Add(judgement);
  EXPECT_EQ(pass.regimes, 2);
  ASSERT_EQ(pass.slices.size(), 2u);
  EXPECT_EQ(pass.slices[1].total().satisfied, 1);
  EXPECT_EQ(pass.slices[1].total().empty, 1);
}

TEST(ExperimentReport, MarkdownHasEveryPartInOneOrder) {
  const std::string bare = ExperimentReportMarkdown(BareReport());
  const std::string full = ExperimentReportMarkdown(FullReport());
  size_t at = 0;
  for (const char* part : {"## Report", "### Clause pass rates", "### Quality and reward",
                           "### Runtime cost: work", "### Runtime cost: time", "### Incidents"}) {
    EXPECT_THAT(bare, HasSubstr(part));
    const size_t found = full.find(part, at);
    ASSERT_NE(found, std::string::npos) << part;
    at = found;
  }
  EXPECT_THAT(bare, HasSubstr("### Quality and reward\n\nNot measured: no answer.\n"));
  EXPECT_THAT(full, Not(HasSubstr("Not measured")));
  EXPECT_THAT(full, HasSubstr("| train (baseline) | lab:train | lab:train | 1 | 1/2 | · |"));
  EXPECT_THAT(full, HasSubstr("Not judged: O-1 (no trace)."));
  EXPECT_THAT(full, HasSubstr("| reward | fp8 | all | 0.5 [0.25, 0.75] | – | 95%, bootstrap |"));
  EXPECT_THAT(full, HasSubstr("| fp8 | loaded | 1,500 (+300) |"));
  EXPECT_THAT(full, HasSubstr("| fp8 | – | 2.5 (-0.5) |"));
  EXPECT_THAT(full, HasSubstr("| fp8 | 3 | 2 | 1 | 1/2 | 0.5 [0.25, 0.75] requests | – |"));
}

TEST(ExperimentReport, ThePageEscapesWhatItShows) {
  const PageSection bare = ReportSection(BareReport());
  EXPECT_THAT(bare.body, HasSubstr("<p>Not measured: no &lt;traffic&gt;.</p>"));
  EXPECT_THAT(bare.body, HasSubstr("<td>print &lt;t&gt;</td>"));
  const PageSection full = ReportSection(FullReport());
  EXPECT_THAT(full.body, HasSubstr("<td class=\"h2\">1/2</td><td class=\"none\">·</td>"));
  EXPECT_THAT(full.body, Not(HasSubstr("Not measured")));
}

TEST(ExperimentJsonSchema, IsTheOneInTheDocs) {
  const auto committed = ReadFile("docs/experiment.schema.json", 1 << 20);
  ASSERT_TRUE(committed) << committed.error().Format();
  EXPECT_EQ(*committed, ExperimentJsonSchema())
      << "write it again: kcc schema --experiment > docs/experiment.schema.json";
}

}  // namespace
}  // namespace kcc
