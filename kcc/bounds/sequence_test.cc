// The sequence bounds against independent values, and how they order among themselves.
#include "kcc/bounds/sequence.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kcc/bounds/divergence.h"

namespace kcc {
namespace {

// 40-digit arithmetic.
struct Case {
  double span;
  int64_t tokens;
  double tv;
};
constexpr Case kCases[] = {
    {0.02, 1000, 0.15713047564860494472},    {0.1, 100, 0.24613171720705984299},
    {1, 1, 0.24491866240370912928},          {3, 7, 0.98645962526078419757},
    {1e-3, 1000000, 0.24614413780329439366}, {50, 3, 1.0},
};

TEST(SequenceTv, MatchesHighPrecisionAndRoundsUp) {
  for (const Case& c : kCases) {
    const double bound = SequenceTvOfSpan(c.span, c.tokens);
    EXPECT_GE(bound, c.tv * (1 - 2e-16)) << c.span << " x " << c.tokens;
    EXPECT_LE(bound, c.tv * (1 + 2e-14)) << c.span << " x " << c.tokens;
  }
}

TEST(SequenceTv, OfOneTokenIsTheTokenBound) {
  for (const double span : {1e-300, 1e-120, 1e-7, 0.3, 9.0, 700.0}) {
    EXPECT_NEAR(SequenceTvOfSpan(span, 1) / TvOfSpan(span), 1, 1e-13) << span;
  }
  EXPECT_EQ(SequenceTvOfSpan(0.3, 0), 0);
  EXPECT_EQ(SequenceTvOfSpan(0, 10), 0);
  EXPECT_EQ(SequenceTvOfSpan(std::numeric_limits<double>::infinity(), 1), 1);
}

TEST(SequenceTv, GrowsWithTheRootOfTheLengthAndNeverPassesTheCoupling) {
  EXPECT_NEAR(SequenceTvOfSpan(1e-5, 10000) / SequenceTvOfSpan(1e-5, 100), 10, 1e-3);
  for (const double span : {1e-6, 0.01, 0.5, 4.0}) {
    double last = 0;
    for (int64_t tokens = 1; tokens < 5000000; tokens = tokens * 3 + 1) {
      const double hellinger = SequenceTvOfSpan(span, tokens);
      EXPECT_GE(hellinger, last);
      EXPECT_LE(hellinger, SequenceTvOfTokenTv(TvOfSpan(span), tokens) * (1 + 1e-13));
      EXPECT_LE(hellinger,
                SequenceTvOfSquaredSpans(static_cast<double>(tokens) * span * span) * (1 + 1e-13));
      last = hellinger;
    }
  }
  EXPECT_NEAR(SequenceTvOfTokenTv(0.005, 1000), 0.99334603142116800582, 1e-13);
  EXPECT_NEAR(SequenceTvOfTokenTv(0.1, 3), 0.271, 1e-14);
}

TEST(SequenceTv, TakesOneSpanPerStep) {
  const std::array<double, 3> spans = {0.1, 0.7, 2.0};
  EXPECT_NEAR(SequenceTvOfSpans(spans), 0.4874735623257493003, 1e-14);
  const std::vector<double> equal(100, 0.1);
  EXPECT_NEAR(SequenceTvOfSpans(equal), SequenceTvOfSpan(0.1, 100), 1e-13);
  EXPECT_EQ(SequenceTvOfSpans({}), 0);
  EXPECT_GT(SequenceTvOfSpans(std::array<double, 2>{1e-200, 0}), 0);
}

TEST(Sequence, AddsTokenQuantities) {
  EXPECT_NEAR(SequenceTvOfMeanTokenTv(0.002, 100), 0.2, 1e-14);
  EXPECT_EQ(SequenceTvOfMeanTokenTv(0.5, 3), 1);
  EXPECT_NEAR(SequenceKlOfTokenKl(0.25, 8), 2.0, 1e-13);
  EXPECT_EQ(SequenceKlOfTokenKl(std::numeric_limits<double>::infinity(), 0), 0);
  EXPECT_NEAR(SequenceRenyiOfSquaredSpans(0.5, 2), 0.125, 1e-14);
}

TEST(LogWeightTail, IsTheAzumaTail) {
  EXPECT_NEAR(LogWeightTail(0.3, 0.05), 0.054647444894585122, 1e-15);
  EXPECT_EQ(LogWeightTail(0, 0), 1);
  EXPECT_EQ(LogWeightTail(0.1, 0), 0);
  EXPECT_EQ(LogWeightTail(0.01, 5), 1);  // no more than a probability
}

}  // namespace
}  // namespace kcc
