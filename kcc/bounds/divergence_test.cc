// The divergence bounds against independent values, at their seams, and as functions.
#include "kcc/bounds/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Curve {
  std::string name;
  std::function<double(double)> bound;
  std::vector<double> values;  // at kSpans
};

const std::vector<double> kSpans = {1e-6, 0.001, 0.04, 0.3, 0.999, 1, 2, 7.5, 29.99, 31, 200};

// From 60-digit arithmetic (mpmath), rounded to 20; the formulas themselves are tested by search.
// clang-format off
const std::vector<Curve> kCurves = {
    {"tv", TvOfSpan,
     {2.4999999999999478035e-7, 0.00024999999479166680208, 0.0099996666799994605475,
      0.07485969068749909613, 0.24468364430632423188, 0.24491866240370912928,
      0.4621171572600097585, 0.95404526017994877009, 0.99999938512886450475,
      0.99999962892179632633, 1.0}},
    {"kl", KlOfSpan,
     {1.2499999999999825258e-13, 1.2499999826388893267e-7, 0.00019999555571357416024,
      0.01123596556411409295, 0.1230583968059269933, 0.12330156148224453336,
      0.47447464707052693725, 4.4886941703931453247, 25.589136007241820807,
      26.566012795515886497, 193.70168263345196332}},
    {"jeffreys", JeffreysOfSpan,
     {2.4999999999999476904e-13, 2.4999999479166680728e-7, 0.00039998666719997843023,
      0.022457907206249728008, 0.24443896066201790743, 0.24491866240370912928,
      0.924234314520019517, 7.1553394513496157757, 29.989981560014644934,
      30.999988496575686116, 200.0}},
    {"chi2", Chi2OfSpan,
     {2.5000000000002081071e-13, 2.5000002083333403819e-7, 0.00040005333617785906572,
      0.022669257064430240822, 0.27095310248305740161, 0.27154031740762188924,
      1.3810978455418157298, 451.51074188510833868, 2645035595700.2468643,
      7262212416311.3563078, 1.8064934420314373145e+86}},
    {"hellinger", HellingerOfSpan,
     {3.124999999999918337e-14, 3.1249999186197938652e-8, 0.00004999791675138545609,
      0.0028059232475495890641, 0.030397032693806054427, 0.030456370859785414949,
      0.11318111602992609134, 0.70033745391161434359, 0.9988910627191206981,
      0.99913851507868779313, 1.0}},
};
// clang-format on

TEST(Divergence, MatchesHighPrecisionAndRoundsUp) {
  for (const Curve& curve : kCurves) {
    for (size_t i = 0; i < kSpans.size(); ++i) {
      const double bound = curve.bound(kSpans[i]);
      EXPECT_GE(bound, curve.values[i]) << curve.name << " at " << kSpans[i];
      EXPECT_LE(bound, curve.values[i] * (1 + 3e-14)) << curve.name << " at " << kSpans[i];
    }
  }
}

TEST(Divergence, IsZeroAtZeroPositiveAboveAndDefinedAtInfinity) {
  for (const Curve& curve : kCurves) {
    EXPECT_EQ(curve.bound(0.0), 0.0) << curve.name;
    // Squares underflow here; the bound must not.
    EXPECT_GT(curve.bound(1e-200), 0.0) << curve.name;
    EXPECT_GT(curve.bound(std::numeric_limits<double>::denorm_min()), 0.0) << curve.name;
    const double at_infinity = curve.bound(kInf);
    EXPECT_TRUE(at_infinity == 1.0 || at_infinity == kInf) << curve.name << " " << at_infinity;
    EXPECT_FALSE(std::isnan(curve.bound(std::numeric_limits<double>::max()))) << curve.name;
  }
}

TEST(Divergence, RisesWithTheSpanAlsoAcrossSeams) {
  for (const Curve& curve : kCurves) {
    double last = 0;
    for (double span = 1e-12; span < 800; span *= 1.0009) {
      const double bound = curve.bound(span);
      EXPECT_GE(bound, last) << curve.name << " at " << span;
      last = bound;
    }
    for (const double seam : {0.5, 1.0, 30.0}) {
      for (const double step : {1e-9, 1e-12, 1e-13}) {
        EXPECT_GE(curve.bound(seam), curve.bound(seam * (1 - step)))
            << curve.name << " at " << seam;
        EXPECT_GE(curve.bound(seam * (1 + step)), curve.bound(seam))
            << curve.name << " at " << seam;
      }
    }
  }
}

struct RenyiCase {
  double span;
  double order;
  double value;
};

// The closed form in 120 digits: near order 1 it cancels twice.
// clang-format off
constexpr RenyiCase kRenyi[] = {
    {0.01, 0.1, 1.2499984201420838335e-6},      {0.01, 0.5, 6.2499934895941842674e-6},
    {0.01, 0.999999, 0.000012499970138962191276}, {0.01, 1.000000001, 0.000012499982651427435875},
    {0.01, 2, 0.000024999895834027773548},      {0.01, 16, 0.00019993309138717892233},
    {0.5, 0.1, 0.0031151755140670537778},       {0.5, 0.5, 0.015584478637796505581},
    {0.5, 0.999999, 0.031142061226375525359},   {0.5, 1.000000001, 0.031142092292190662295},
    {0.5, 2, 0.061859607240322742912},          {0.5, 16, 0.31300105656003546209},
    {3, 0.1, 0.10164860322880700847},           {3, 0.5, 0.51653219484561420016},
    {3, 0.999999, 1.0075047108102095064},       {3, 1.000000001, 1.0075056207720092177},
    {3, 2, 1.7108803420275934987},              {3, 16, 2.7540268427759568516},
    {40, 0.1, 3.6408506347679342293},           {40, 0.5, 18.613705643002416622},
    {40, 0.999999, 35.311101045819563302},      {40, 1.000000001, 35.31112056538606541},
    {40, 2, 38.61370563888010939},              {40, 16, 39.750622230713110079},
};
// clang-format on

TEST(Renyi, MatchesHighPrecisionAndRoundsUp) {
  for (const RenyiCase& c : kRenyi) {
    const double bound = RenyiOfSpan(c.span, c.order);
    EXPECT_GE(bound, c.value) << c.span << " order " << c.order;
    EXPECT_LE(bound, c.value * (1 + 1e-12) + 3e-14) << c.span << " order " << c.order;
  }
}

TEST(Renyi, TendsToKlAtOrderOneAndToTheSpanAtInfiniteOrder) {
  for (const double span : {0.02, 0.7, 5.0}) {
    EXPECT_EQ(RenyiOfSpan(span, 1.0), KlOfSpan(span));
    EXPECT_NEAR(RenyiOfSpan(span, 1 + 1e-15), KlOfSpan(span), 4e-14);
    EXPECT_NEAR(RenyiOfSpan(span, 1 - 1e-15), KlOfSpan(span), 4e-14);
    EXPECT_LE(RenyiOfSpan(span, 1e6), span);
    EXPECT_GE(RenyiOfSpan(span, 1e6), 0.999 * span);
  }
  EXPECT_NEAR(RenyiOfSpan(5000, 3), 5000 - std::log(3.0) / 2 - std::log(1.5), 1e-9);
  EXPECT_EQ(RenyiOfSpan(5000, 0.6), 5000);  // e^{.4 s} overflows: |log w| <= s remains
  EXPECT_EQ(RenyiOfSpan(0, 3), 0);
}

TEST(Spans, ComeFromNormsByTheirConstants) {
  EXPECT_NEAR(SpanOfLinf(0.5, 0.25), 4.0, 2e-14);
  EXPECT_NEAR(SpanOfL2(3.0, 1.0), 4.2426406871192851464, 2e-14);
  EXPECT_GE(SpanOfLinf(0.5, 0.25), 4.0);
  EXPECT_GE(SpanOfL2(3.0, 1.0), 4.2426406871192851464);
  EXPECT_EQ(SpanOfMaxAbsLogRatio(0.25), 0.5);
  EXPECT_EQ(LogRatioOfSpan(0.25), 0.25);
}

TEST(Textbook, IsLooserThanTheSharpForm) {
  for (const double linf : {1e-6, 1e-3, 0.1, 0.5, 2.0}) {
    const double span = SpanOfLinf(linf, 1.0);
    EXPECT_GT(TvOfLinfTextbook(linf, 1.0), 1.99 * TvOfSpan(span) * (linf < 0.2 ? 1 : 0.5));
    EXPECT_GE(TvOfLinfExponential(linf, 1.0), TvOfLinfTextbook(linf, 1.0));
    EXPECT_GE(KlOfSpanHoeffding(span), KlOfSpan(span) * (1 - 1e-14));
  }
  // The paper's (23) says nothing beyond ln(3)/2, where the truth is tanh of half of it.
  EXPECT_NEAR(TvOfLinfExponential(0.54930614433405484570, 1.0), 1.0, 1e-12);
  EXPECT_NEAR(TvOfSpan(2 * 0.54930614433405484570), 0.26794919243112270647, 1e-12);
  EXPECT_NEAR(KlOfSpanHoeffding(0.4), 0.02, 1e-15);
  EXPECT_NEAR(TvOfLinfTextbook(0.04, 2.0), 0.02, 1e-15);
}

TEST(BetweenDivergences, TakesTheBetterOfPinskerAndBretagnolleHuber) {
  EXPECT_NEAR(TvOfKl(0.02), 0.1, 1e-14);                 // Pinsker
  EXPECT_NEAR(TvOfKl(3.0), 0.97478865998335047, 1e-13);  // Bretagnolle-Huber
  EXPECT_EQ(TvOfKl(kInf), 1.0);
  EXPECT_EQ(TvOfMeanAbsLogRatio(0.3), 0.3);
  EXPECT_EQ(TvOfMeanAbsLogRatio(3.0), 1.0);
  EXPECT_NEAR(KlOfSpanAndTv(2.0, 0.25), 0.5, 1e-14);
  EXPECT_EQ(KlOfSpanAndTv(kInf, 0.0), 0.0);
}

TEST(LeastSpan, NeverExceedsTheSpanThatProducedTheEvidence) {
  for (double span = 1e-9; span < 100; span *= 1.37) {
    if (span < 60) {
      const double tv = std::tanh(span / 4);
      if (tv < 1) {
        EXPECT_LE(LeastSpanOfTv(tv), span * (1 + 1e-15 / (1 - tv))) << span;
      }
    }
    const double kl = KlOfSpan(span);
    EXPECT_LE(LeastSpanOfKl(kl), span) << span;
    EXPECT_GE(LeastSpanOfKl(kl), span * (1 - 1e-11)) << span;
    EXPECT_GE(LeastSpanOfKl(kl) * (1 + 1e-13), std::sqrt(8 * kl) * (1 - 1e-12)) << span;
  }
  EXPECT_EQ(LeastSpanOfKl(0), 0);
  EXPECT_NEAR(LeastSpanOfTv(1), 67.93, 0.01);
}

}  // namespace
}  // namespace kcc
