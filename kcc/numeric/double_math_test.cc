#include "kcc/numeric/double_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double UlpError(double got, long double want) {
  const auto rounded = static_cast<double>(want);
  const double ulp = std::nextafter(std::fabs(rounded), kInf) - std::fabs(rounded);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want)) / ulp;
}

TEST(DoubleMath, EveryFunctionIsWithinTwoUlp) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-60, 9);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  for (int i = 0; i < 200000; ++i) {
    const double x = std::ldexp(mantissa(random), static_cast<int>(exponent(random)));
    EXPECT_LE(UlpError(Exp(x), expl(x)), 2) << x;
    EXPECT_LE(UlpError(Expm1(x), expm1l(x)), 2) << x;
    EXPECT_LE(UlpError(Log(std::fabs(x)), logl(std::fabs(x))), 2) << x;
    if (x > -1) {
      EXPECT_LE(UlpError(Log1p(x), log1pl(x)), 2) << x;
    }
    if (std::fabs(x) > 1e-3) {  // below, the long double reference itself cancels
      EXPECT_LE(UlpError(ExpResidual(x), expm1l(x) - x), 12) << x;
      EXPECT_LE(UlpError(CoshResidual(x), 2 * sinhl(x / 2.0L) * 2 * sinhl(x / 2.0L)), 12) << x;
    } else {
      EXPECT_NEAR(ExpResidual(x) / (0.5 * x * x), 1 + x / 3, 1e-6) << x;
    }
  }
}

TEST(DoubleMath, SpecialValuesFollowC) {
  EXPECT_EQ(Exp(-kInf), 0);
  EXPECT_EQ(Exp(kInf), kInf);
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Exp(-745.1), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(Expm1(-kInf), -1);
  EXPECT_EQ(Expm1(0), 0);
  EXPECT_EQ(Expm1(800), kInf);
  EXPECT_EQ(Log(0), -kInf);
  EXPECT_EQ(Log(1), 0);
  EXPECT_EQ(Log(kInf), kInf);
  EXPECT_TRUE(std::isnan(Log(-1)));
  EXPECT_EQ(Log1p(-1), -kInf);
  EXPECT_EQ(Log1p(0), 0);
  EXPECT_EQ(ExpResidual(0), 0);
  EXPECT_EQ(CoshResidual(0), 0);
  EXPECT_NEAR(Log(5e-324), std::log(5e-324), 1e-12);
}

TEST(DoubleMath, ResidualsAreNeverNegative) {
  for (double x = 1e-300; x < 40; x *= 1.37) {
    EXPECT_GE(ExpResidual(x), 0);
    EXPECT_GE(ExpResidual(-x), 0);
    EXPECT_GE(CoshResidual(x), 0);
    EXPECT_EQ(CoshResidual(x), CoshResidual(-x));
  }
}

}  // namespace
}  // namespace kcc
