#include "kcc/report/report_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kcc/base/file.h"
#include "kcc/judge/health.h"
#include "tests/report/sample/sample_report.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ReportJson, ReadsBackToTheSameBytes) {
  for (const auto& make :
       {SampleReport, ConvergentSample, LargeSample, HostileSample, EmptySample}) {
    const ReportData report = make();
    const std::string json = ReportJson(report);
    const auto read = ReadReport(json);
    ASSERT_TRUE(read) << read.error().Format();
    EXPECT_EQ(ReportJson(*read), json);
    const std::string compact = ReportJson(report, JsonWriter::Style::kCompact);
    EXPECT_EQ(ReportJson(*ReadReport(compact)), json);
  }
}

// The keys that others build on (docs/design.md section 13), in the promised order.
TEST(ReportJson, HasThePromisedShape) {
  const std::string json = ReportJson(SampleReport(), JsonWriter::Style::kCompact);
  EXPECT_EQ(
      json.find(
          R"({"kccReport":1,"contract":{"name":"qwen3-8b-fp8-serving","version":"1.3.0","digest":"sha256:)"),
      0u);
  for (
      const char* key :
      {R"("verdict":"violated","convergent":false,"health":)", R"("thresholds":[1,25])",
       R"("action":"fallback")", R"({"id":"N-1","family":"numerical","metric":"p99_logit_linf")",
       R"("level":"L3","hard":true)",
       R"("slices":[{"slice":"all","verdict":"satisfied","value":0.)",
       R"("threshold":0.05,"exceedance":null,"count":{"requests":4096,"tokens":1203311},"reason":")",
       R"("exceedance":{"windows":4096,"exceeding":491,"rate":0.119873046875,"budget":0.05})",
       R"("smallestPassing":434.87109375)", R"("quantities":{"logit_linf":{"all":{"count":)",
       R"("worst":[{"quantity":"kl","slice":"all","value":)",
       R"("provenance":{"kcc":"0.1.0","train":{)", R"("evidence":"logits")",
       R"("quantity":"logit_linf","aggregate":"p99")"}) {
    EXPECT_THAT(json, HasSubstr(key));
  }
}

TEST(ReportJson, TellsPartialMissingAndInfiniteApart) {
  ReportData report = SampleReport();
  SliceVerdict& slice = report.judgement.clauses[0].slices[1];  // violated, as by an infinite value
  const auto text = [&] { return ReportJson(report, JsonWriter::Style::kCompact); };
  slice.value = {0.25, 0.75};
  EXPECT_THAT(text(), HasSubstr(R"("value":null,"interval":[0.25,0.75])"));
  slice.value = {};
  EXPECT_THAT(text(), HasSubstr(R"("value":null,"interval":null)"));
  const double inf = std::numeric_limits<double>::infinity();
  slice.value = {0.5, inf};
  EXPECT_THAT(text(), HasSubstr(R"("value":null,"interval":[0.5,"inf"])"));
  slice.value = {inf, inf};
  EXPECT_THAT(text(), HasSubstr(R"("value":"inf","interval":["inf","inf"])"));
  EXPECT_EQ(ReadReport(text())->judgement.clauses[0].slices[1].value.hi, inf);
}

// The CPU's reports keep the bytes they had before there were devices.
TEST(ReportJson, NamesADeviceThatMeasured) {
  ReportData report = SampleReport();
  EXPECT_THAT(ReportJson(report), Not(HasSubstr("\"backend\"")));
  report.provenance.backend = "cuda";
  const std::string json = ReportJson(report, JsonWriter::Style::kCompact);
  EXPECT_THAT(json, HasSubstr(R"("backend":"cuda"})"));
  EXPECT_EQ(ReadReport(json)->provenance.backend, "cuda");
}

TEST(ReadReport, IgnoresKeysItDoesNotKnow) {
  const std::string json = ReportJson(SampleReport());
  const auto read = ReadReport(Replaced(json, "{", R"({"addedLater": [1, {"x": null}], )"));
  ASSERT_TRUE(read) << read.error().Format();
  EXPECT_EQ(ReportJson(*read), json);
}

TEST(ReadReport, NamesThePlaceOfWhatIsWrong) {
  const std::string json = ReportJson(SampleReport(), JsonWriter::Style::kCompact);
  const struct {
    std::string text, message;
  } cases[] = {
      {"", "not JSON"},
      {"[1, 2", "not JSON"},
      {"[]", "lacks the key 'kccReport'"},
      {Replaced(json, "\"kccReport\":1", "\"kccReport\":2"), "format 2"},
      {Replaced(json, "\"verdict\":\"violated\"", "\"verdict\":\"fine\""),
       ".verdict is 'fine', which this version does not know"},
      {Replaced(json, "\"tokens\":1203311", "\"tokens\":\"many\""),
       ".clauses[0].slices[0].count.tokens is not an integer"},
      {Replaced(json, "\"threshold\":0.05", "\"threshold\":[]"),
       ".clauses[0].slices[0].threshold is not a number"},
      {Replaced(json, "\"thresholds\":[1,25]", "\"thresholds\":[1]"), ".thresholds is not a pair"},
      {Replaced(json, "\"edges\":[", "\"edges\":[0,"), "one more edge than counts"},
      {Replaced(json, "\"provenance\"", "\"provenanse\""), "lacks the key 'provenance'"},
  };
  for (const auto& c : cases) {
    const auto read = ReadReport(c.text);
    ASSERT_FALSE(read) << c.message;
    EXPECT_EQ(read.error().code(), ErrorCode::kInvalid);
    EXPECT_THAT(read.error().message(), HasSubstr(c.message));
  }
}

// Every statement that follows from others, edited alone.
TEST(ReadReport, CatchesAConclusionThatItsClausesDoNotSupport) {
  const std::string violated = ReportJson(SampleReport(), JsonWriter::Style::kCompact);
  const std::string satisfied = ReportJson(ConvergentSample(), JsonWriter::Style::kCompact);
  const std::string empty = ReportJson(EmptySample(), JsonWriter::Style::kCompact);
  const std::string clause = R"("action":"fallback","verdict":)";  // of N-1
  const struct {
    std::string text, message;
  } cases[] = {
      {Replaced(violated, R"("verdict":"violated")", R"("verdict":"satisfied")"),
       ".verdict is 'satisfied', but the clauses make it 'violated'. It was edited"},
      {Replaced(violated, R"("verdict":"violated")", R"("verdict":"inconclusive")"),
       ".verdict is 'inconclusive', but the clauses make it 'violated'"},
      {Replaced(satisfied, R"("verdict":"satisfied")", R"("verdict":"violated")"),
       ".verdict is 'violated', but the clauses make it 'satisfied'"},
      {Replaced(empty, R"("verdict":"inconclusive")", R"("verdict":"satisfied")"),
       ".verdict is 'satisfied', but the clauses make it 'inconclusive'"},
      {Replaced(violated, R"("convergent":false)", R"("convergent":true)"),
       ".convergent is true, but the clauses make it false"},
      {Replaced(violated, R"("health":)", R"("health":0,"healthWas":)"),
       ".health is 0, but the clauses make it"},
      {Replaced(violated, R"("thresholds":[1,25])", R"("thresholds":[1,99])"),
       ".thresholds[1] is 99, but the clauses make it 25"},
      {Replaced(violated, R"("action":"fallback")", R"("action":"none")"),
       ".action is 'none', but the clauses make it at least 'fallback'"},
      {Replaced(violated, R"("action":"fallback")", R"("action":"guard")"),
       ".action is 'guard', but the clauses make it at least 'fallback'"},
      {Replaced(satisfied, R"("action":"none")", R"("action":"rollback")"),
       ".action is 'rollback', but the clauses make it 'none'"},
      {Replaced(empty, R"("action":"guard")", R"("action":"none")"), ".action is 'none'"},
      {Replaced(violated, clause + R"("violated")", clause + R"("satisfied")"),
       ".clauses[0].verdict is 'satisfied', but its slices make it 'violated'"},
      {Replaced(violated, R"("pairs":{"violated":2)", R"("pairs":{"violated":0)"),
       ".totals.pairs.violated is not 2, as the clauses say"},
      {Replaced(violated, R"("value":0.)", R"("value":0.0)"),
       ".clauses[0].slices[0].value is not what the interval says"},
      {Replaced(violated, "{", R"({"verdict":"violated",)"), "has the key 'verdict' twice"},
      {Replaced(violated, R"("weight":25)", R"("weight":0)"),
       ".clauses[0].slices[0].weight is 0, but the clauses make it 25"},
      {Replaced(violated, R"("deviation":0)", R"("deviation":-3)"),
       ".clauses[0].slices[0].deviation is not from 0 to 2"},
  };
  for (const auto& c : cases) {
    const auto read = ReadReport(c.text);
    ASSERT_FALSE(read) << c.message;
    EXPECT_EQ(read.error().code(), ErrorCode::kInvalid);
    EXPECT_THAT(read.error().message(), HasSubstr(c.message));
  }
}

// A verdict edited everywhere at once still stands beside what it was judged by.
TEST(ReadReport, CatchesASatisfiedSliceThatShowsItIsNot) {
  const auto edited = [](ReportData report) {
    for (ClauseVerdict& clause : report.judgement.clauses) {
      for (SliceVerdict& slice : clause.slices) {
        slice.about.verdict = Verdict::kSatisfied;
        slice.deviation = 0;
      }
    }
    Conclude({}, &report.judgement);
    return ReadReport(ReportJson(report));
  };
  ReportData report = SampleReport();
  EXPECT_THAT(edited(report).error().message(), HasSubstr("beyond the threshold"));
  auto& clauses = report.judgement.clauses;
  std::erase_if(clauses, [](const ClauseVerdict& clause) { return clause.hard; });
  ASSERT_FALSE(clauses.empty());
  EXPECT_THAT(edited(report).error().message(), HasSubstr("over the budget"));
  clauses.resize(1);
  clauses[0].slices.clear();
  EXPECT_THAT(edited(report).error().message(), HasSubstr("names no slice"));
  EXPECT_TRUE(edited(ConvergentSample()));
}

// Found by fuzzing: compared with itself, such a report had changed.
TEST(ReadReport, RefusesNamesThatStandTwice) {
  ReportData report = SampleReport();
  auto& clauses = report.judgement.clauses;
  const std::string id = clauses.at(1).id;
  clauses[1].id = clauses[0].id;
  EXPECT_THAT(ReadReport(ReportJson(report)).error().message(),
              HasSubstr("has the clause '" + clauses[0].id + "' twice"));
  clauses[1].id = id;
  ASSERT_GT(clauses[0].slices.size(), 1u);
  clauses[0].slices[1].slice = clauses[0].slices[0].slice;
  EXPECT_THAT(ReadReport(ReportJson(report)).error().message(), HasSubstr("has the slice"));
}

TEST(ReadReport, RefusesEveryTruncationWithoutHarm) {
  const std::string json = ReportJson(EmptySample());
  for (size_t size = 0; size + 2 < json.size(); ++size) {
    EXPECT_FALSE(ReadReport(std::string_view(json).substr(0, size)));
  }
}

TEST(ReportJsonSchema, IsTheOneInTheDocs) {
  const auto committed = ReadFile("docs/report.schema.json", 1 << 20);
  ASSERT_TRUE(committed) << committed.error().Format();
  EXPECT_EQ(*committed, ReportJsonSchema())
      << "write it again: kcc schema --report > docs/report.schema.json";
}

TEST(ReportJson, NeverHoldsRawControlCharacters) {
  const std::string json = ReportJson(HostileSample());
  EXPECT_THAT(json, Not(HasSubstr("\x1b")));
  EXPECT_THAT(json, HasSubstr("\\u001b[31m"));
}

}  // namespace
}  // namespace kcc
