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

std::vector<std::string> DialectIds() {
  std::vector<std::string> ids;
  for (const Dialect* dialect : Dialects()) ids.emplace_back(dialect->id);
  return ids;
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

INSTANTIATE_TEST_SUITE_P(Dialects, Conform, ::testing::ValuesIn(DialectIds()),
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

// ---- Shapes ------------------------------------------------------------------------------------

// What is wrong with a case of trl or nemo whose inputs are these and train_logprobs [2 rows of 2].
std::string ShapeProblem(const std::string& inputs) {
  std::string problems;
  for (const std::string dialect : {"trl", "nemo"}) {
    const auto report = RunConform(
        R"([{"name": "c", "config": {}, "expected": {"error": "any"}, "inputs": {)"
        R"("train_logprobs": [[-1, -2], [-1, -2]], "rollout_logprobs": [[-1, -2], [-1, -2]], )"
        R"("mask": [[1, 1], [1, 1]], )" +
            inputs + "}}]",
        dialect);
    problems += report.has_value() ? "read" : report.error().message();
    problems += "\n";
  }
  return problems;
}

TEST(ConformShapes, EveryArrayIsCheckedAgainstTheLogprobs) {
  EXPECT_EQ(ShapeProblem(R"("tool_mask": [[1, 1], [1, 1]], "rewards": [1, 0])"), "read\nread\n");
  struct Case {
    const char* inputs;
    const char* problem;
  };
  const Case cases[] = {
      {R"("tool_mask": [[1]])", "case \"c\": tool_mask has another shape than train_logprobs"},
      {R"("tool_mask": [[1, 1, 1], [1]])",
       "case \"c\": tool_mask has another shape than train_logprobs"},
      {R"("current_logprobs": [[-1], [-1]])",
       "case \"c\": current_logprobs has another shape than train_logprobs"},
      {R"("advantages": [[1], [1]])",
       "case \"c\": advantages has another shape than train_logprobs"},
      {R"("advantages": [1])", "case \"c\": advantages has 1 numbers for 2 rows"},
      {R"("sample_mask": [1])", "case \"c\": sample_mask has 1 numbers for 2 rows"},
      {R"("rewards": [1, 2, 3])", "case \"c\": rewards has 3 numbers for 2 rows"},
      {R"("rewards": [[1, 2], [3, 4]])",
       "case \"c\": rewards must be a list of one number per row"},
      {R"("rewards": [[1], 2])",
       "case \"c\": rewards must be a list of rows of numbers, or a list of numbers"},
      {R"("tool_masks": [[1, 1], [1, 1]])",
       "case \"c\": inputs hold \"tool_masks\", which no dialect reads; did you mean "
       "\"tool_mask\"?"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ShapeProblem(c.inputs), std::string(c.problem) + "\n" + c.problem + "\n") << c.inputs;
  }
}

}  // namespace
}  // namespace kcc
