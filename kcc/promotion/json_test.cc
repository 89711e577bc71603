// Bad JSON of states and events; that good JSON reads back is a property (property_test.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/promotion/promotion_json.h"
#include "kcc/promotion/promotion_test_data.h"

namespace kcc {
namespace {

TEST(PromotionJson, SaysWhatIsWrongAndWhere) {
  struct Case {
    std::string json;
    std::string problem;
  };
  const std::vector<Case> cases = {
      {"", "nothing here"},
      {"[]", "an object, and this is a list"},
      {"{", "not JSON"},
      {R"({"atMs":1})", "event is missing"},
      {R"({"event":"tick"})", "atMs is missing"},
      {R"({"event":"tock","atMs":1})", "event is not a word that is known: 'tock'"},
      {R"({"event":"tick","atMs":"1"})", "atMs is not a whole number"},
      {R"({"event":"tick","atMs":1.5})", "atMs is not a whole number"},
      {R"({"event":"tick","atMs":1,"bye":2})", "bye is not known"},
      {R"({"event":"approval","atMs":1,"by":2})", "by is not a text"},
      {R"({"event":"hook-answer","atMs":1,"yes":"yes"})", "yes is not true or false"},
      {R"({"event":"evaluation","atMs":1,"evaluation":[]})", "evaluation is not an object"},
      {R"({"event":"evaluation","atMs":1,"evaluation":{"stage":"shadow","evidence":"e","test":"anytime",)"
       R"("requests":1,"contract":"c","clauses":[{"id":"A","level":"L4"}]}})",
       "evaluation.clauses[0].level is not a word"},
  };
  for (const Case& one : cases) {
    const auto read = ReadPromotionEvent(one.json);
    ASSERT_FALSE(read.has_value()) << one.json;
    EXPECT_THAT(read.error().message(), ::testing::HasSubstr(one.problem)) << one.json;
  }
}

TEST(PromotionJson, RefusesStatesThatCannotBe) {
  const PromotionPolicy policy = testing::PlainPolicy();
  const std::string good = ToJson(testing::Proposed(policy));
  ASSERT_TRUE(ReadPromotionState(good).has_value());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    KCC_CHECK(at != text.npos);
    return ReadPromotionState(text.replace(at, from.size(), to)).has_value();
  };
  EXPECT_FALSE(with("\"nowMs\":0", "\"nowMs\":-1"));
  EXPECT_FALSE(with("\"nowMs\":0", "\"nowMs\":9223372036854775807"));
  EXPECT_FALSE(with("\"nowMs\":0", "\"nowMs\":0,\"rollbacks\":1000000000"));
  EXPECT_FALSE(with("\"nowMs\":0", "\"nowMs\":0,\"step\":-1"));
  EXPECT_FALSE(with("\"phase\":\"proposed\"", "\"phase\":\"prosposed\""));
  EXPECT_TRUE(with("\"nowMs\":0", "\"nowMs\":1"));
}

// No cut of a state reads as a state.
TEST(PromotionJson, ATruncatedStateIsNoState) {
  const std::string good = ToJson(testing::Proposed(testing::PlainPolicy()));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ReadPromotionState(good.substr(0, size)).has_value()) << size;
  }
}

}  // namespace
}  // namespace kcc
