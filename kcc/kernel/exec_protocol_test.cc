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

}  // namespace
}  // namespace kcc
