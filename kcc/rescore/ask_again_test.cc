// What an answer to a question of the scorer's own counts as.
#include "kcc/rescore/ask_again.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/rescore/rescore_job.h"
#include "kcc/rescore/rescore_test_data.h"

namespace kcc {
namespace {

using testing::RecordOf;
using testing::RescorePool;

TEST(AskAgain, AnAnswerThatAnswersNothingIsAFailure) {
  struct Case {
    int status;
    const char* body;
    Served served;
  };
  const char* const whole = R"({"choices":[{"index":0,"text":"a","finish_reason":"stop"}]})";
  const Case cases[] = {
      {200, whole, Served::kWhole},
      {201, whole, Served::kWhole},
      {200, "{}", Served::kFailed},
      {200, "", Served::kFailed},
      {204, "", Served::kFailed},
      {200, "<html>", Served::kFailed},
      {200, R"({"choices":[]})", Served::kFailed},
      {200, R"({"error":{"message":"x"}})", Served::kFailed},
      {200, R"({"error":{"message":"x","code":400}})", Served::kRefused},
      {200, R"({"choices":[{"index":0,"text":)", Served::kFailed},
      {302, whole, Served::kFailed},
      {500, whole, Served::kFailed},
      {404, "{}", Served::kRefused},
      {0, "", Served::kFailed},
  };
  for (const Case& one : cases) {
    ServedRecord record = RecordOf(RescorePool(), "r", {1, 2}, {});
    const auto again = MakeAgainCall(record, *record.pool, record.pool->kernels[1]);
    ASSERT_TRUE(again.has_value());
    CallAnswer answer;
    answer.status = one.status;
    answer.body = one.body;
    answer.seconds = 0.5;
    ReadAgain(*again, answer, size_t{1} << 20, &record);
    EXPECT_EQ(ServedOf(record), one.served) << one.status << one.body;
    EXPECT_EQ(record.reason, "") << one.status << one.body;
  }
}

}  // namespace
}  // namespace kcc
