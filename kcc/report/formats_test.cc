// Terminal, Markdown, JUnit and SARIF: what each says, and that hostile text stays text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include "kcc/report/junit.h"
#include "kcc/report/report_markdown.h"
#include "kcc/report/sarif.h"
#include "kcc/report/terminal.h"
#include "kcc/report/text.h"
#include "tests/report/sample/sample_report.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

size_t Occurrences(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// A code span ends at a run of as many backticks as began it (CommonMark 6.1).
std::string OutsideCodeSpans(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (text[0] == '\\') {
      out += text.substr(0, 2);
      text.remove_prefix(std::min<size_t>(2, text.size()));
      continue;
    }
    const size_t run = std::min(text.find_first_not_of('`'), text.size());
    if (run == 0) {
      out += text[0];
      text.remove_prefix(1);
      continue;
    }
    size_t end = run;
    for (;;) {
      end = text.find('`', end);
      if (end == std::string_view::npos) return out.append(text);  // never closed: all is text
      const size_t closing = std::min(text.find_first_not_of('`', end), text.size()) - end;
      end += closing;
      if (closing == run) break;
    }
    text.remove_prefix(end);
  }
  return out;
}

TEST(ReportTerminal, FitsTheWidth) {
  for (const auto& make : {SampleReport, HostileSample, LargeSample, EmptySample}) {
    const ReportData report = make();
    for (const int width : {40, 57, 132}) {
      for (const std::string& line : Lines(ReportTerminal(report, {width, false, true}))) {
        EXPECT_LE(DisplayWidth(line), static_cast<size_t>(width)) << line;
      }
    }
  }
}

TEST(ReportTerminal, PutsVerdictActionAndViolationsFirst) {
  const std::string text = ReportTerminal(SampleReport(), {});
  EXPECT_THAT(text, StartsWith("✗ VIOLATED  qwen3-8b-fp8-serving 1.3.0\n"));
  EXPECT_THAT(text, HasSubstr("action: fallback"));
  EXPECT_THAT(text, HasSubstr("would pass at 434.9, or with a budget of 12%"));
  EXPECT_LT(text.find("N-1"), text.find("S-2"));
  EXPECT_LT(text.find("R-1"), text.find("S-2")) << "violated before inconclusive";
}

TEST(ReportTerminal, SaysTheRiskInTheWordsOfThePages) {
  const ReportData report = SampleReport();
  EXPECT_THAT(ReportTerminal(report, {132, false, false}),
              HasSubstr("\n  " + RiskText(report.judgement) + "\n"));
  EXPECT_THAT(ReportTerminal(EmptySample(), {}), HasSubstr("Risk unknown: nothing was measured"));
}

TEST(ReportTerminal, DoesNotSayThatAValueWouldPassAtItself) {
  ReportData report = SampleReport();
  for (ClauseVerdict& clause : report.judgement.clauses) {
    for (SliceVerdict& slice : clause.slices) {
      slice.value = {0.07, 0.07};
      slice.smallest_passing = 0.07;
      slice.smallest_budget.reset();
    }
  }
  EXPECT_THAT(ReportTerminal(report, {}), Not(HasSubstr("would pass")));
}

TEST(ReportTerminal, ColoursOnlyWhenAsked) {
  EXPECT_THAT(ReportTerminal(HostileSample(), {}), Not(HasSubstr("\x1b")));
  const std::string colored = ReportTerminal(HostileSample(), {80, true, false});
  EXPECT_THAT(colored, HasSubstr("\x1b[1;31m"));
  EXPECT_THAT(colored, Not(HasSubstr("\x1b[31m"))) << "a name's own escape must not survive";
}

TEST(ReportTerminal, ListsSatisfiedPairsOnRequest) {
  const ReportData report = ConvergentSample();
  EXPECT_THAT(ReportTerminal(report, {}), Not(HasSubstr("long-context")));
  EXPECT_THAT(ReportTerminal(report, {80, false, true}), HasSubstr("long-context"));
}

TEST(ReportMarkdown, KeepsEveryTableRowInItsColumns) {
  for (const auto& make : {SampleReport, HostileSample}) {
    size_t columns = 0;
    for (const std::string& line : Lines(ReportMarkdown(make()))) {
      if (!line.starts_with("|")) {
        columns = 0;
        continue;
      }
      size_t bars = 0;
      for (size_t i = 0; i < line.size(); ++i)
        bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
      if (columns == 0) columns = bars;
      EXPECT_EQ(bars, columns) << line;
    }
  }
}

TEST(ReportMarkdown, ShowsForeignTextAsText) {
  const std::string text = ReportMarkdown(HostileSample());
  EXPECT_THAT(text, Not(HasSubstr("\n## fake")));
  EXPECT_THAT(text, Not(HasSubstr("@everyone \x1b")));
  EXPECT_THAT(text, HasSubstr("<img")) << "code spans show markup as it is";
  EXPECT_THAT(OutsideCodeSpans(text), Not(HasSubstr("<img")));
}

TEST(ReportMarkdown, AnswersWhyAndWhatNow) {
  const std::string text = ReportMarkdown(SampleReport());
  EXPECT_THAT(text, HasSubstr("Worst on "));
  EXPECT_THAT(text, HasSubstr("fallback (serve from the fallback kernel)"));
  EXPECT_THAT(text, HasSubstr("Slice: `prompt_tokens >= 8192`."));
  EXPECT_THAT(text, HasSubstr("Clause: half the smallest margin that the safety set has"));
  EXPECT_THAT(text,
              HasSubstr("```sh\nkcc author --evidence 'traces/torch bf16:traces/vllm-fp8'\n```"));
  EXPECT_THAT(ReportMarkdown(ConvergentSample()), Not(HasSubstr("What to do next")));
}

TEST(ReportMarkdown, StaysBelowTheLimitOfAComment) {
  const std::string text = ReportMarkdown(LargeSample());
  EXPECT_LT(text.size(), 65'536u);
  EXPECT_THAT(text, HasSubstr(" more in report.html and report.json._"));
  EXPECT_EQ(Occurrences(text, "<details>"), Occurrences(text, "</details>"));
}

TEST(MarkdownCode, FencesBackticksAndBars) {
  EXPECT_EQ(MarkdownCode("a"), "`a`");
  EXPECT_EQ(MarkdownCode("a`b``c"), "``` a`b``c ```");
  EXPECT_EQ(MarkdownCode("a|b"), "`a\\|b`");
  EXPECT_EQ(MarkdownCode(""), "");
}

TEST(ReportJunit, CountsEveryPairOnce) {
  const ReportData report = SampleReport();
  const VerdictTotals totals = CountPairs(report.judgement);
  const std::string xml = ReportJunit(report);
  EXPECT_EQ(Occurrences(xml, "<testcase"), static_cast<size_t>(totals.all()));
  EXPECT_EQ(Occurrences(xml, "<failure"), static_cast<size_t>(totals.of(Verdict::kViolated)));
  EXPECT_EQ(Occurrences(xml, "<error"), static_cast<size_t>(totals.of(Verdict::kError)));
  EXPECT_EQ(Occurrences(xml, "<skipped"), static_cast<size_t>(totals.of(Verdict::kInconclusive)));
  EXPECT_THAT(xml, HasSubstr("tests=\"20\" failures=\"2\" errors=\"1\" skipped=\"2\""));
  EXPECT_THAT(xml, HasSubstr("<testsuite name=\"observability\" tests=\"1\""));
}

TEST(ReportJunit, HoldsNoCharacterThatXmlForbids) {
  const std::string xml = ReportJunit(HostileSample());
  EXPECT_THAT(xml, Not(HasSubstr("<img")));
  for (const char c : xml) {
    EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n') << static_cast<int>(c);
  }
}

TEST(ReportSarif, PointsAtTheClauseInTheContract) {
  const std::string sarif = ReportSarif(SampleReport());
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  ASSERT_FALSE(parser.parse(sarif).get(root));
  std::string_view version;
  ASSERT_FALSE(root["version"].get(version));
  EXPECT_EQ(version, "2.1.0");
  simdjson::dom::array results;
  ASSERT_FALSE(root.at_pointer("/runs/0/results").get(results));
  EXPECT_EQ(results.size(), 5u);
  const struct {
    const char* pointer;
    std::string_view text;
  } texts[] = {
      {"/runs/0/results/0/ruleId", "N-1"},
      {"/runs/0/results/0/level", "error"},
      {"/runs/0/results/0/kind", "fail"},
      {"/runs/0/results/0/locations/0/physicalLocation/artifactLocation/uri",
       "contracts/qwen3-8b-fp8.yaml"},
      {"/runs/0/results/1/kind", "open"},
      {"/runs/0/results/1/level", "none"},
      {"/runs/0/tool/driver/rules/0/id", "N-1"},
  };
  for (const auto& c : texts) {
    std::string_view text;
    ASSERT_FALSE(root.at_pointer(c.pointer).get(text)) << c.pointer;
    EXPECT_EQ(text, c.text) << c.pointer;
  }
  int64_t line = 0;
  ASSERT_FALSE(
      root.at_pointer("/runs/0/results/0/locations/0/physicalLocation/region/startLine").get(line));
  EXPECT_EQ(line, 21);
}

TEST(ReportSarif, EncodesTheFileNameAndLeavesOutAnUnknownOne) {
  EXPECT_THAT(ReportSarif(HostileSample()),
              HasSubstr("dir%20with%20blanks/%C3%BCn%C3%AF%20%22quote%22.yaml"));
  ReportData report = SampleReport();
  report.contract.file.clear();
  EXPECT_THAT(ReportSarif(report), Not(HasSubstr("locations")));
}

}  // namespace
}  // namespace kcc
