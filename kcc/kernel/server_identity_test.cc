#include "kcc/kernel/server_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kcc {
namespace {

using ::testing::HasSubstr;

std::string Problem(const std::string& body, const std::string& wanted = "") {
  ServerFacts facts;
  const auto read = ReadModelList(body, wanted, &facts);
  return read.has_value() ? "model " + facts.model + ", " + std::to_string(facts.vocab_size)
                          : read.error().message();
}

std::string ListWith(const std::string& n_vocab) {
  return R"({"data":[{"id":"a","meta":{"n_vocab":)" + n_vocab + "}}]}";
}

TEST(ReadModelList, FindsTheModelAndItsVocabulary) {
  EXPECT_EQ(Problem(ListWith("512")), "model a, 512");
  EXPECT_EQ(Problem(R"({"data":[{"id":"a"},{"id":"b"}]})", "b"), "model b, 0");
  EXPECT_THAT(Problem(R"({"data":[{"id":"a"},{"id":"b"}]})"), HasSubstr("models a and b"));
  EXPECT_THAT(Problem(R"({"data":[]})"), HasSubstr("names no model"));
  EXPECT_THAT(Problem("[]"), HasSubstr("does not give a JSON object"));
}

// Ids from the middle of such a vocabulary would wrap around on their way into 32 bits.
TEST(ReadModelList, RefusesAVocabularyThatIsNone) {
  EXPECT_THAT(Problem(ListWith("4503599627370496")), HasSubstr("n_vocab 4503599627370496"));
  EXPECT_THAT(Problem(ListWith("-1")), HasSubstr("n_vocab -1"));
}

}  // namespace
}  // namespace kcc
