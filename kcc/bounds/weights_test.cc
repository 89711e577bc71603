// The worst weight gaps against brute force over two-point pairs, and their limits.
#include "kcc/bounds/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kcc/bounds/divergence.h"

namespace kcc {
namespace {

struct Case {
  double span;
  double low;
  double high;
  Correction correction;
  double value;
};

// max over a 3001 x 3001 grid of two-point weights (l, h) with h <= l e^s, one-sided limits taken
// at the jumps of phi; the grid's own error is below 2e-6.
// clang-format off
constexpr Case kBruteForce[] = {
    {0.1, 0.95, 1.02, Correction::kClip, 0.0162344517}, {0.3, 0.8, 1.2, Correction::kClip, 0.0125979802},
    {0.5, 0.9, 1.05, Correction::kClip, 0.17122357},    {1.0, 0.5, 2.0, Correction::kClip, 0.0320051368},
    {1.5, 0.3, 1.5, Correction::kClip, 0.228658874},    {1.5, 0.7, 4.0, Correction::kClip, 0.170826203},
    {3.0, 0.2, 1.1, Correction::kClip, 0.617465786},    {3, 0.4, 5.0, Correction::kClip, 0.264221715},
    {6.0, 0.05, 10.0, Correction::kClip, 0.711670429},  {2.0, 1, 1, Correction::kClip, 0.924234315},
    {2.0, 0.05, 20.0, Correction::kClip, 0},            {0.6, 0.5, 2, Correction::kClip, 0},
    {0.1, 0.95, 1.02, Correction::kMask, 1},            {0.3, 0.8, 1.2, Correction::kMask, 0.428340817},
    {0.5, 0.9, 1.05, Correction::kMask, 1},             {1.0, 0.5, 2.0, Correction::kMask, 0.418023293},
    {1.5, 0.3, 1.5, Correction::kMask, 0.856391542},    {1.5, 0.7, 4.0, Correction::kMask, 0.613834925},
    {3.0, 0.2, 1.1, Correction::kPpo, 1},               {3, 0.4, 5.0, Correction::kPpo, 1},
    {2.0, 1, 1, Correction::kMask, 1},                  {2.0, 0.05, 20.0, Correction::kMask, 0},
    {0.1, 0.95, 1.02, Correction::kFilter, 1},          {0.3, 0.8, 1.2, Correction::kFilter, 0.499730954},
    {0.5, 0.9, 1.05, Correction::kFilter, 1},           {1.0, 0.5, 2.0, Correction::kFilter, 0.62703494},
    {1.5, 0.3, 1.5, Correction::kFilter, 1.14185539},   {1.5, 0.7, 4.0, Correction::kFilter, 0.876907036},
    {3.0, 0.2, 1.1, Correction::kFilter, 1.47425033},   {3, 0.4, 5.0, Correction::kFilter, 1.18428129},
    {6.0, 0.05, 10.0, Correction::kFilter, 1.85750801}, {2.0, 1, 1, Correction::kFilter, 1},
    {2.0, 0.05, 20.0, Correction::kFilter, 0.924234315}, {0.6, 0.5, 2, Correction::kFilter, 0.297770067},
};
// clang-format on

TEST(WeightGap, WorstCaseMatchesBruteForce) {
  for (const Case& c : kBruteForce) {
    const double bound = WeightGapOfSpan(c.span, c.correction, {c.low, c.high});
    EXPECT_GE(bound * (1 + 1e-8), c.value) << c.span << " [" << c.low << ", " << c.high << "]";
    EXPECT_LE(bound, c.value * (1 + 2e-6)) << c.span << " [" << c.low << ", " << c.high << "]";
  }
}

TEST(WeightGap, UncorrectedIsTwiceTvAndTruncationAtOneIsTv) {
  for (const double span : {1e-9, 1e-3, 0.4, 3.0, 900.0}) {
    EXPECT_EQ(WeightGapOfSpan(span, Correction::kNone, {}), 2 * TvOfSpan(span));
    EXPECT_NEAR(WeightGapOfSpan(span, Correction::kTruncate, {}) / TvOfSpan(span), 1, 1e-13);
    EXPECT_NEAR(ExcessBelowOfSpan(span, 1.0) / TvOfSpan(span), 1, 1e-13);
    EXPECT_EQ(WeightGapOfSpan(span, Correction::kFull, {}), 0);
  }
}

TEST(WeightGap, ExcessIsZeroExactlyWhileTheSpanCannotReachTheEnd) {
  EXPECT_EQ(ExcessAboveOfSpan(0.5, 2.0), 0);
  EXPECT_EQ(ExcessBelowOfSpan(0.5, 0.5), 0);
  // At the double nearest ln 2 the real excess may be positive by an ulp squared; never report 0.
  EXPECT_GT(ExcessAboveOfSpan(std::nextafter(std::log(2.0), 1.0), 2.0), 0);
  EXPECT_LT(ExcessAboveOfSpan(std::nextafter(std::log(2.0), 1.0), 2.0), 1e-27);
  EXPECT_EQ(ExcessAboveOfSpan(std::numeric_limits<double>::infinity(), 5.0), 1);
  EXPECT_NEAR(ExcessBelowOfSpan(std::numeric_limits<double>::infinity(), 0.25), 0.25, 1e-15);
  // (e - sqrt 2)^2/(e^2 - 1) and half of it for a = 1/2, in 30 digits.
  EXPECT_NEAR(ExcessAboveOfSpan(2.0, 2.0), 0.26617297082381990, 1e-14);
  EXPECT_NEAR(ExcessBelowOfSpan(2.0, 0.5), 0.13308648541190995, 1e-14);
}

TEST(WeightGap, RisesWithTheSpanForEveryCorrection) {
  for (const auto correction : {Correction::kNone, Correction::kTruncate, Correction::kClip,
                                Correction::kMask, Correction::kFilter, Correction::kPpo}) {
    for (const CorrectionRange range :
         {CorrectionRange{1, 1}, {0.8, 1.2}, {0.5, 1.01}, {0.99, 8.0}, {0.001, 1000.0}}) {
      double last = 0;
      for (double span = 1e-10; span < 900; span *= 1.003) {
        const double gap = WeightGapOfSpan(span, correction, range);
        EXPECT_GE(gap, last * (1 - 1e-13)) << span << " [" << range.low << ", " << range.high;
        EXPECT_LE(gap, 2.0);
        last = gap;
      }
      EXPECT_EQ(WeightGapOfSpan(0, correction, range), 0);
    }
  }
}

TEST(WeightGap, WiderClippingNeverAdmitsMoreBias) {
  // The paper's section 6.3 has it the other way round (docs/math.md A.9, W3).
  double last = 2;
  for (const double width : {0.0, 0.1, 0.2, 0.4, 0.8}) {
    const double gap = WeightGapOfSpan(0.5, Correction::kClip, {1 - width, 1 + width});
    EXPECT_LE(gap, last);
    last = gap;
  }
  EXPECT_EQ(last, 0);
}

TEST(WeightGap, OfOneSampleFollowsTheEstimatorsDefinition) {
  const CorrectionRange range{0.8, 1.25};
  const double high = std::log(1.5);
  const double low = std::log(0.6);
  const double inside = std::log(1.1);
  const struct {
    Correction correction;
    double advantage;
    double at_high, at_low, at_inside;
  } rows[] = {
      {Correction::kNone, 1, 0.5, 0.4, 0.1},   {Correction::kTruncate, 1, 0.25, 0, 0},
      {Correction::kClip, 1, 0.25, 0.2, 0},    {Correction::kMask, 1, 1.5, 0.6, 0},
      {Correction::kFilter, 1, 1.5, 0.6, 0.1}, {Correction::kPpo, 1, 1.5, 0, 0},
      {Correction::kPpo, -1, 0, 0.6, 0},       {Correction::kPpo, 0, 0, 0, 0},
      {Correction::kFull, 1, 0, 0, 0},
  };
  for (const auto& row : rows) {
    EXPECT_NEAR(WeightGap(high, row.correction, range, row.advantage), row.at_high, 1e-14);
    EXPECT_NEAR(WeightGap(low, row.correction, range, row.advantage), row.at_low, 1e-14);
    EXPECT_NEAR(WeightGap(inside, row.correction, range, row.advantage), row.at_inside, 1e-14);
  }
}

}  // namespace
}  // namespace kcc
