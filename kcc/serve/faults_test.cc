#include "kcc/serve/faults.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kcc/serve/serve_test_data.h"
#include "kcc/serve/token_numbers.h"

namespace kcc {
namespace {

FaultRule Rule(std::string_view text) {
  json::parser parser;
  const auto root = ParseJson(parser, text);
  json::object object;
  EXPECT_TRUE(root.has_value() && root->get(object) == simdjson::SUCCESS) << text;
  FaultRule rule;
  const auto error = ReadFaultRule(
      object, [](std::string_view) -> Result<size_t> { return size_t{3}; }, &rule);
  EXPECT_FALSE(error) << error->message;
  return rule;
}

GenerationRequest Request(size_t prompt, std::vector<std::string> tags = {}) {
  GenerationRequest request;
  request.prompts = {std::vector<int32_t>(prompt, 1)};
  request.tags = std::move(tags);
  request.user = "ann";
  request.metadata = {{"lang", "de"}};
  return request;
}

TEST(Faults, ARuleAppliesToWhatItsPredicateSelects) {
  const std::vector<std::pair<std::string, bool>> cases = {
      {"prompt_tokens > 4", true},
      {"prompt_tokens > 5", false},
      {"'safety' in tags", true},
      {"'math' in tags", false},
      {"user == 'ann'", true},
      {"lang == 'de'", true},
      {"lang == 'en'", false},
      {"stream", false},
      {"endpoint == 'completion'", true},
      {"unknown == 'x'", false},
  };
  for (const auto& [where, expected] : cases) {
    Faults faults;
    faults.Set(Rule("{\"where\":\"" + where + "\",\"latency_ms\":9,\"switches\":\"x\"}"));
    std::vector<std::string> applied;
    const FaultPlan plan = faults.Plan(Request(5, {"safety"}), &applied);
    EXPECT_EQ(plan.latency_ms, expected ? 9 : 0) << where;
    EXPECT_EQ(plan.engine.has_value(), expected) << where;
    EXPECT_EQ(applied.size(), expected ? 1u : 0u) << where;
  }
}

TEST(Faults, DriftMovesEvenlyAndStaysAtItsEnd) {
  Faults faults;
  faults.Set(Rule(R"({"drift":{"parameter":"temperature","from":1,"to":2,"requests":4}})"));
  std::vector<double> seen;
  std::vector<std::string> applied;
  for (int i = 0; i < 6; ++i) seen.push_back(faults.Plan(Request(1), &applied).change.temperature);
  EXPECT_EQ(seen, (std::vector<double>{1, 1.25, 1.5, 1.75, 2, 2}));
}

TEST(Faults, StatusesComeAtTheirRateAndTheSameEachTime) {
  const auto draw = [](int seed) {
    Faults faults;
    faults.Set(Rule(R"({"status":{"code":500,"rate":0.25},"seed":)" + std::to_string(seed) + "}"));
    std::vector<bool> failed;
    std::vector<std::string> applied;
    for (int i = 0; i < 2000; ++i)
      failed.push_back(faults.Plan(Request(1), &applied).status.has_value());
    return failed;
  };
  const std::vector<bool> one = draw(1);
  EXPECT_NEAR(static_cast<double>(std::count(one.begin(), one.end(), true)) / 2000, 0.25, 0.03);
  EXPECT_EQ(draw(1), one);
  EXPECT_NE(draw(2), one);
}

TEST(Faults, ARuleOfTheSameNameIsReplacedAndCountsAgain) {
  Faults faults;
  std::vector<std::string> applied;
  faults.Set(Rule(R"({"name":"a","latency_ms":5})"));
  faults.Plan(Request(1), &applied);
  EXPECT_NE(faults.Json().find("\"matched\": 1"), std::string::npos) << faults.Json();
  faults.Set(Rule(R"({"name":"a","latency_ms":6})"));
  EXPECT_NE(faults.Json().find("\"matched\": 0"), std::string::npos);
  EXPECT_EQ(faults.Plan(Request(1), &applied).latency_ms, 6);
  faults.Set(Rule(R"({"name":"b","cut":{"after_chunks":0}})"));
  const FaultPlan both = faults.Plan(Request(1), &applied);
  EXPECT_EQ(both.latency_ms, 6);
  EXPECT_EQ(both.cut_after, 0u);
  EXPECT_TRUE(faults.Clear("a"));
  EXPECT_FALSE(faults.Clear("a"));
  EXPECT_EQ(faults.Plan(Request(1), &applied).latency_ms, 0);
  for (size_t i = 1; i < kFaultsMax; ++i)
    EXPECT_TRUE(faults.Set(Rule("{\"name\":\"f" + std::to_string(i) + "\"}")));
  EXPECT_FALSE(faults.Set(Rule(R"({"name":"one too many"})")));
}

TEST(ChangeLogits, NoiseHasItsDeviationAndRepeats) {
  const std::vector<float> logits(20000, 1.0f);
  std::vector<float> changed;
  std::vector<float> again;
  const LogitChange change{2, 0.5, 9};
  ChangeLogits(logits, change, 3, &changed);
  ChangeLogits(logits, change, 3, &again);
  EXPECT_EQ(changed, again);
  ChangeLogits(logits, change, 4, &again);
  EXPECT_NE(changed, again);
  double sum = 0;
  double squares = 0;
  for (const float value : changed) {
    sum += value - 0.5;
    squares += (value - 0.5) * (value - 0.5);
  }
  EXPECT_NEAR(sum / 20000, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 20000), 0.5, 0.01);
}

}  // namespace
}  // namespace kcc
