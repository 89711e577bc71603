#include "kcc/report/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kcc/base/file.h"
#include "kcc/report/sample/sample_report.h"

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

// The keys that others build on (DESIGN.md section 13), in the order in which they are promised.
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
  SliceVerdict& slice = report.judgement.clauses[0].slices[0];
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
  EXPECT_EQ(ReadReport(text())->judgement.clauses[0].slices[0].value.hi, inf);
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
