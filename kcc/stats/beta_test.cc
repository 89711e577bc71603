// Reference values: 50-digit arithmetic (mpmath), binomial tails summed term by term.
#include "kcc/stats/beta.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kcc {
namespace {

void ExpectRelative(double actual, double expected, double tolerance) {
  EXPECT_LE(std::abs(actual - expected), tolerance * std::abs(expected))
      << actual << " instead of " << expected;
}

TEST(Binomial, TailsAgreeWithTwelveDigitsUpToABillion) {
  const struct {
    int64_t k, n;
    double p, at_most, at_least;
  } cases[] = {
      // clang-format off
      {0, 29, 0.1, 0.0471012869724624399, 1.0},
      {3, 10, 0.5, 0.171875, 0.9453125},
      {10, 167, 0.1, 0.0477494296076279388, 0.975380056806758523},
      {5, 10511, 0.001, 0.0499789882891065532, 0.979104399671518478},
      {0, 1000000000, 1e-09, 0.367879440987502578, 1.0},
      {3, 1000000000, 1e-09, 0.981011843185159427, 0.0803013969794243471},
      {30, 1000000000, 1e-08, 0.999999920162070517, 2.50995071373000374e-7},
      {1000, 1000000, 0.001, 0.508409368220775545, 0.504211555166992293},
      {900, 1000000, 0.001, 0.000694015462286855367, 0.999380812489868086},
      {1200, 1000000, 0.001, 0.999999999619425293, 4.58963860610077033e-10},
      {499000, 1000000, 0.5, 0.0228041499326910432, 0.977303832045327872},
      {9980000, 1000000000, 0.01, 1.01995748553489264e-10, 0.999999999898215163},
      {10000000, 1000000000, 0.01, 0.50008410547821736, 0.500042686700602962},
      {10020000, 1000000000, 0.01, 0.999999999895469146, 1.04747036919585432e-10},
      {499940000, 1000000000, 0.5, 0.0000739105731448158307, 0.999926108264204326},
      {999999990, 1000000000, 0.99999999, 0.542070292440176114, 0.583039743906507353},
      {2, 5, 0.999, 9.98500600000002659e-9, 0.999999999995004},
      {7, 20, 1e-09, 1.0, 7.75199991182100385e-59},
      // clang-format on
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << "k=" << c.k << " n=" << c.n << " p=" << c.p);
    ExpectRelative(BinomialAtMost(c.k, c.n, c.p), c.at_most, 1e-12);
    ExpectRelative(BinomialAtLeast(c.k, c.n, c.p), c.at_least, 1e-12);
  }
}

TEST(Binomial, EdgesAreExact) {
  EXPECT_EQ(BinomialAtMost(-1, 5, 0.5), 0);
  EXPECT_EQ(BinomialAtMost(5, 5, 0.5), 1);
  EXPECT_EQ(BinomialAtMost(0, 0, 0.5), 1);
  EXPECT_EQ(BinomialAtLeast(0, 5, 0.5), 1);
  EXPECT_EQ(BinomialAtLeast(6, 5, 0.5), 0);
  EXPECT_EQ(BinomialAtMost(0, 5, 0), 1);
  EXPECT_EQ(BinomialAtMost(0, 5, 1), 0);
  EXPECT_EQ(BinomialAtLeast(1, 5, 0), 0);
  EXPECT_EQ(BinomialPoint(5, 5, 1), 1);
}

TEST(Binomial, TailsOverlapInOnePoint) {
  for (const int64_t n : {1, 7, 100, 12345}) {
    for (const double p : {1e-4, 0.03, 0.5, 0.97}) {
      for (int64_t k = 0; k <= n; k += 1 + n / 23) {
        const double both = BinomialAtMost(k, n, p) + BinomialAtLeast(k, n, p);
        EXPECT_NEAR(both, 1 + BinomialPoint(k, n, p), 1e-13) << k << " of " << n << " at " << p;
      }
    }
  }
}

TEST(BetaQuantile, AgreesWithTwelveDigits) {
  const struct {
    double a, b, probability;
    Tail tail;
    double x;
  } cases[] = {
      {1, 299, 0.05, Tail::kUpper, 0.00996914679289927081},
      {6, 1044, 0.05, Tail::kUpper, 0.00999564215757397892},
      {5, 1045, 0.025, Tail::kLower, 0.0015494080457683226},
      {2.5, 3.5, 0.3, Tail::kLower, 0.301772323247505427},
      {0.5, 0.5, 0.1, Tail::kLower, 0.0244717418524232166},
      {1, 1e9, 0.05, Tail::kUpper, 2.99573226906678501e-9},
      {1001, 999000, 1e-06, Tail::kUpper, 0.00115856109000901323},
      {1000, 999001, 1e-10, Tail::kLower, 0.000811874771382376362},
      {30, 1, 0.05, Tail::kLower, 0.904966147144695863},
      {1e7, 9.9e8, 0.05, Tail::kUpper, 0.01000517596819577},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << "a=" << c.a << " b=" << c.b);
    ExpectRelative(BetaQuantile(c.a, c.b, c.probability, c.tail), c.x, 1e-12);
  }
}

TEST(BetaQuantile, InvertsTheTailEverywhere) {
  for (const double a : {0.3, 1.0, 4.0, 250.0, 1e5}) {
    for (const double b : {0.3, 1.0, 4.0, 250.0, 1e5}) {
      for (const double p : {1e-9, 1e-3, 0.05, 0.5}) {
        const double lower = BetaQuantile(a, b, p, Tail::kLower);
        if (lower > 0 && lower < 1) {  // steep densities near 1 run out of doubles
          const double slack = lower > 0.999 ? 1e-2 : 1e-9;
          ExpectRelative(IncompleteBeta(a, b, lower).lower, p, slack);
        }
        const double upper = BetaQuantile(a, b, p, Tail::kUpper);
        if (upper > 0 && upper < 0.999) ExpectRelative(IncompleteBeta(a, b, upper).upper, p, 1e-9);
      }
    }
  }
}

TEST(Hypergeometric, TailsAgreeWithTwelveDigits) {
  const struct {
    int64_t k, drawn, marked, corpus;
    double at_most, at_least;
  } cases[] = {
      {0, 50, 11, 100, 0.000263742076704812777, 1.0},
      {3, 50, 11, 100, 0.0998585397006624668, 0.974439533127156742},
      {2, 1000, 101, 10000, 0.00171769989137641325, 0.999721029251395972},
      {20, 1000, 101, 10000, 0.999133327174472184, 0.00212217143170465},
      {900, 100000, 10000, 1000000, 0.000362742353916779838, 0.999680286370762388},
      {1100, 100000, 10000, 1000000, 0.999555668366879684, 0.000499134788858121596},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << c.k << " of " << c.drawn);
    ExpectRelative(HypergeometricAtMost(c.k, c.drawn, c.marked, c.corpus), c.at_most, 1e-11);
    ExpectRelative(HypergeometricAtLeast(c.k, c.drawn, c.marked, c.corpus), c.at_least, 1e-11);
  }
}

TEST(Hypergeometric, PointsAddUpToOne) {
  for (const int64_t marked : {0, 1, 7, 19, 20}) {
    for (const int64_t drawn : {0, 1, 9, 20}) {
      double sum = 0;
      for (int64_t k = 0; k <= 20; ++k) sum += HypergeometricPoint(k, drawn, marked, 20);
      EXPECT_NEAR(sum, 1, 1e-13) << marked << " " << drawn;
    }
  }
}

}  // namespace
}  // namespace kcc
