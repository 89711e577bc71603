// Answers by their text alone; the programs that give them are in exec_kernel_test.cc.
#include "kcc/kernel/exec_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kcc {
namespace {

using ::testing::HasSubstr;

std::string Problem(const std::string& logprob) {
  std::vector<KernelRequest> asked(1);
  asked[0].request.id = "a";
  asked[0].tokens = {1};
  asked[0].prompt_tokens = 1;
  KernelInfo info;
  info.fingerprint = "toy";
  info.vocab_size = 11;
  const std::string line =
      R"({"type":"generated","batch":1,"fingerprint":"toy","requests":[{"id":"a","tokens":[3],)"
      R"("logprobs":[)" +
      logprob + "]}]}";
  const auto generated = ParseGenerated(line, 1, asked, Sampling{}, info);
  return generated.has_value() ? "" : generated.error().message();
}

TEST(ParseGenerated, TakesLogProbsAlone) {
  EXPECT_EQ(Problem("-0.5"), "");
  EXPECT_EQ(Problem("0"), "");
  EXPECT_THAT(Problem("5"), HasSubstr("the log-prob 5"));
  // As a float it would be -inf, a token that cannot be, though the program says no such thing.
  EXPECT_THAT(Problem("-1e300"), HasSubstr("the log-prob -1e+300"));
  EXPECT_THAT(Problem("-9999"), HasSubstr("the log-prob -9999"));
  EXPECT_THAT(Problem("\"NaN\""), HasSubstr("is no number"));
}

std::vector<KernelRequest> AskedTwo() {
  std::vector<KernelRequest> asked(2);
  asked[0].request.id = "a";
  asked[1].request.id = "b";
  for (KernelRequest& request : asked) {
    request.tokens = {1, 2};
    request.prompt_tokens = 1;
  }
  return asked;
}

std::string ScoredLine(const std::string& more) {
  return R"({"type":"scored","batch":1,"fingerprint":"toy","requests":["a","b"])" + more + "}";
}

TEST(ParseScored, TakesSignaturesAndAuditPoints) {
  const auto none = ParseScored(ScoredLine(""), 1, AskedTwo(), "toy");
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->empty());
  const auto audits = ParseScored(
      ScoredLine(R"(,"audits":[{"replaySignature":"s1","auditPoints":[{"point":"layer 0",)"
                 R"("digests":["x","y"]}]},{}])"),
      1, AskedTwo(), "toy");
  ASSERT_TRUE(audits.has_value()) << audits.error().Format();
  ASSERT_EQ(audits->size(), 2u);
  EXPECT_EQ((*audits)[0].signature, "s1");
  EXPECT_EQ((*audits)[0].points, (AuditPointList{{"layer 0", {"x", "y"}}}));
  EXPECT_EQ((*audits)[1].signature, "");
}

TEST(ParseScored, SaysWhatIsWrongWithAudits) {
  const auto problem = [](const std::string& audits) {
    const auto parsed = ParseScored(ScoredLine(",\"audits\":" + audits), 1, AskedTwo(), "toy");
    return parsed.has_value() ? std::string() : parsed.error().message();
  };
  EXPECT_THAT(problem("[{}]"), HasSubstr("one object for each request"));
  EXPECT_THAT(problem("[{}, 3]"), HasSubstr("one object for each request"));
  EXPECT_THAT(problem(R"([{}, {"signature":"x"}])"), HasSubstr("unknown key 'signature'"));
  EXPECT_THAT(problem(R"([{}, {"replaySignature":""}])"), HasSubstr("not empty"));
  EXPECT_THAT(problem(R"([{}, {"replaySignature":7}])"), HasSubstr("not empty"));
  EXPECT_THAT(problem(R"([{}, {"replaySignature":"a\nb"}])"), HasSubstr("one line"));
  EXPECT_THAT(problem(R"([{}, {"auditPoints":[{"point":"a=b","digests":["x"]}]}])"),
              HasSubstr("without '='"));
  EXPECT_THAT(problem(R"([{}, {"auditPoints":[{"point":"a","digests":["x y"]}]}])"),
              HasSubstr("blank"));
  EXPECT_THAT(problem(R"([{}, {"auditPoints":[{"point":"a","digests":[]}]}])"),
              HasSubstr("no digest"));
  EXPECT_THAT(problem(R"([{}, {"auditPoints":[{"point":"a","digests":["x"],"n":1}]}])"),
              HasSubstr("unknown key 'n'"));
  EXPECT_THAT(problem(R"([{}, {"auditPoints":[{"point":"a","digests":["x"]},)"
                      R"({"point":"a","digests":["x"]}]}])"),
              HasSubstr("comes twice"));
}

TEST(ScoreMessage, AsksForAuditPointsOnlyWhereTheyAreWanted) {
  EXPECT_THAT(ScoreMessage(1, AskedTwo(), "f"), ::testing::Not(HasSubstr("audit")));
  EXPECT_THAT(ScoreMessage(1, AskedTwo(), "f", true), HasSubstr(R"("audit":true)"));
}

}  // namespace
}  // namespace kcc
