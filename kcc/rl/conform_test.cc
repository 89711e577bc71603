#include "kcc/rl/conform.h"

#include <gtest/gtest.h>

#include "kcc/base/file.h"
#include "kcc/rl/dialect.h"

namespace kcc {
namespace {

std::string Golden(const std::string& name) {
  auto text = ReadFile("tests/data/rl/" + name + ".json", 16 << 20);
  EXPECT_TRUE(text.has_value());
  return text.has_value() ? *text : "";
}

class Conform : public ::testing::TestWithParam<std::string> {};

TEST_P(Conform, EveryGoldenValueIsReproduced) {
  const auto report = RunConform(Golden(GetParam()), GetParam());
  ASSERT_TRUE(report.has_value()) << report.error().Format();
  EXPECT_GE(report->cases, 15);
  EXPECT_GT(report->values, 500);
  for (size_t i = 0; i < std::min<size_t>(40, report->misses.size()); ++i) {
    const ConformMiss& miss = report->misses[i];
    ADD_FAILURE() << miss.case_name << " " << miss.what << ": expected " << miss.expected
                  << ", got " << miss.got;
  }
}

TEST_P(Conform, ScalarsAgreeWithUpstreamRunInFloat64) {
  const auto report = RunConform(Golden(GetParam()), GetParam(), {.float64 = true});
  ASSERT_TRUE(report.has_value());
  for (size_t i = 0; i < std::min<size_t>(40, report->misses.size()); ++i) {
    const ConformMiss& miss = report->misses[i];
    ADD_FAILURE() << miss.case_name << " " << miss.what << ": expected " << miss.expected
                  << ", got " << miss.got;
  }
}

INSTANTIATE_TEST_SUITE_P(Dialects, Conform,
                         ::testing::Values("verl", "trl", "openrlhf", "slime", "skyrl", "areal",
                                           "ms_swift", "nemo", "roll", "prime_rl", "open_instruct"),
                         [](const auto& param_info) { return param_info.param; });

TEST(ConformErrors, EveryConfigurationThatUpstreamRefusesIsRefused) {
  const auto report = RunConform(Golden("errors"), "");
  ASSERT_TRUE(report.has_value()) << report.error().Format();
  EXPECT_EQ(report->cases, 25);
  EXPECT_EQ(report->refused, 25);
  for (const ConformMiss& miss : report->misses) {
    ADD_FAILURE() << miss.dialect << " " << miss.case_name << " was accepted";
  }
}

}  // namespace
}  // namespace kcc
