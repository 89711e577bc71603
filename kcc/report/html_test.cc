#include "kcc/report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/report/report_json.h"
#include "tests/report/sample/sample_report.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t Occurrences(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(ReportHtml, NamesNothingOutsideItself) {
  const std::string page = ReportHtml(SampleReport());
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_EQ(Occurrences(page, "{{"), 0u) << "a part of the template was not filled";
}

TEST(ReportHtml, LetsNoTextBreakOutOfItsElement) {
  const std::string calm = ReportHtml(SampleReport());
  const std::string page = ReportHtml(HostileSample());
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_EQ(Occurrences(page, "<script"), Occurrences(calm, "<script"));
  EXPECT_EQ(Occurrences(page, "</script"), Occurrences(calm, "</script"));
  EXPECT_EQ(Occurrences(page, "<!--"), Occurrences(calm, "<!--"));
  EXPECT_THAT(page, HasSubstr("{{script}}")) << "text that looks like a template stays text";
}

TEST(ReportHtml, CarriesTheReport) {
  const ReportData report = HostileSample();
  const std::string page = ReportHtml(report);
  const std::string_view open = "<script type=\"application/json\" id=\"report\">";
  const size_t start = page.find(open) + open.size();
  std::string json = page.substr(start, page.find("</script>", start) - start);
  const auto read = ReadReport(json);
  ASSERT_TRUE(read) << read.error().Format();
  EXPECT_EQ(ReportJson(*read), ReportJson(report));
}

TEST(ReportHtml, ShowsASummaryWithoutScripts) {
  const std::string page = ReportHtml(SampleReport());
  const std::string summary = page.substr(page.find("<main id=\"static\""));
  EXPECT_THAT(summary, HasSubstr("qwen3-8b-fp8-serving 1.3.0: violated"));
  EXPECT_THAT(summary, HasSubstr("<td>N-1</td><td>long-context</td><td>violated</td>"));
  EXPECT_THAT(summary, HasSubstr("Action: fallback (serve from the fallback kernel)."));
}

}  // namespace
}  // namespace kcc
