#include "kcc/control/dashboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/report/content_policy.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What stands between the only pair of these tags.
std::string Between(const std::string& page, const std::string& open, const std::string& close) {
  const size_t start = page.find(open);
  EXPECT_NE(start, std::string::npos);
  EXPECT_EQ(page.find(open, start + 1), std::string::npos) << "one " << open;
  const size_t from = start + open.size();
  return page.substr(from, page.find(close, from) - from);
}

TEST(Dashboard, IsOnePageThatNamesNothingOutsideItself) {
  const std::string page = DashboardPage();
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

TEST(Dashboard, AllowsItsOwnScriptAndStyleAndNoOthers) {
  const std::string page = DashboardPage();
  const std::string policy = DashboardPolicy();
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy,
              HasSubstr("script-src " + SourceHash(Between(page, "<script>", "</script>")) + ";"));
  EXPECT_THAT(policy,
              HasSubstr("style-src " + SourceHash(Between(page, "<style>", "</style>")) + ";"));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  // The page says the same, for a proxy that drops headers.
  EXPECT_THAT(page, HasSubstr(policy.substr(0, policy.find("; frame-ancestors"))));
}

TEST(Dashboard, NeverReadsTextAsMarkup) {
  const std::string script = Between(DashboardPage(), "<script>", "</script>");
  for (const char* way : {".innerHTML =", ".outerHTML", "insertAdjacentHTML", "document.write",
                          "eval(", "new Function"}) {
    EXPECT_THAT(script, Not(HasSubstr(way)));
  }
}

}  // namespace
}  // namespace kcc
