#include "kcc/trace/alignment_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVocab = 64;
constexpr int32_t kRows = 120;

int32_t TokenAt(int32_t position) { return ((position + 1) * 29 + (position + 1) / 7) % 64; }

// A text whose every row of logits strongly expects the token at `position + predicts`.
std::string Problem(int32_t predicts, bool with_logprobs, double temperature = 1) {
  AlignmentCheck check(kVocab, true);
  for (int32_t p = 0; p < kRows; ++p) {
    std::vector<float> logits(kVocab, 0.0f);
    logits[static_cast<size_t>(TokenAt(p + predicts))] = 9;
    TokenEvidence token;
    token.position = p;
    token.token = TokenAt(p);
    token.logits = logits.data();
    // The log-prob is that of a row that does predict the token.
    const double top = 9 / temperature;
    if (with_logprobs) {
      token.logprob = static_cast<float>(top - std::log(std::exp(top) + 63));
    }
    check.Add(token);
  }
  const auto result = check.Check();
  return result.has_value() ? "" : result.error().message();
}

TEST(AlignmentCheckTest, AlignedRowsPass) {
  EXPECT_EQ(Problem(0, true), "");
  EXPECT_EQ(Problem(0, false), "");
}

TEST(AlignmentCheckTest, LogitsOfTheNextTokenAreNoticed) {
  EXPECT_THAT(Problem(1, true), HasSubstr("shifted by one against the log-probs: the logits at "
                                          "index t predict token t + 1"));
  EXPECT_THAT(Problem(1, false), HasSubstr("shifted by one against the logits"));
}

TEST(AlignmentCheckTest, LogitsOfThePreviousTokenAreNoticed) {
  EXPECT_THAT(Problem(-1, true), HasSubstr("one token too late"));
  EXPECT_THAT(Problem(-1, false), HasSubstr("one token too late"));
}

TEST(AlignmentCheckTest, LogprobsOfOtherSemanticsAreNoticed) {
  EXPECT_THAT(Problem(0, true, 3), HasSubstr("mixed semantics"));
}

TEST(AlignmentCheckTest, RandomRowsAreNotAccused) {
  testing::SyntheticSpec spec;
  spec.vocab_size = kVocab;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    spec.seed = seed;
    AlignmentCheck check(kVocab, true);
    for (int32_t p = 0; p < kRows; ++p) {
      const auto logits = testing::SyntheticLogits(spec, 0, p);
      TokenEvidence token;
      token.position = p;
      token.token = TokenAt(p + static_cast<int32_t>(seed));
      token.logits = logits.data();
      check.Add(token);
    }
    EXPECT_TRUE(check.Check().has_value()) << seed;
  }
}

}  // namespace
}  // namespace kcc
