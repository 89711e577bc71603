#include "kcc/numeric/wide_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

struct Number {
  double mantissa;
  int64_t exponent;
};

std::vector<Number> RandomNumbers(std::mt19937_64& random, size_t count, int64_t range) {
  std::uniform_real_distribution<double> mantissa(0.3, 9);
  std::uniform_int_distribution<int64_t> exponent(-range, range);
  std::vector<Number> out(count);
  for (Number& x : out) x = {mantissa(random), exponent(random)};
  return out;
}

WideSum SumOf(std::span<const Number> numbers) {
  WideSum sum;
  for (const Number& x : numbers) sum.Add(x.mantissa, x.exponent);
  return sum;
}

void ExpectSame(const WideSum& a, const WideSum& b) {
  EXPECT_EQ(a.block(), b.block());
  EXPECT_TRUE(a.top() == b.top());
  EXPECT_TRUE(a.below() == b.below());
}

TEST(WideDouble, IsDoubleWhereDoubleReaches) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 10000; ++i) {
    const double a = normal(random) * std::exp(100 * normal(random)), b = normal(random);
    EXPECT_EQ((WideDouble(a) + b).ToDouble(), a + b);
    EXPECT_EQ((WideDouble(a) - b).ToDouble(), a - b);
    EXPECT_EQ((WideDouble(a) * b).ToDouble(), a * b);
    EXPECT_EQ((WideDouble(a) / b).ToDouble(), a / b);
    EXPECT_EQ(WideDouble(a) < b, a < b);
    EXPECT_EQ(Sqrt(Abs(WideDouble(a))).ToDouble(), std::sqrt(std::fabs(a)));
  }
}

TEST(WideDouble, GoesOnWhereDoubleEnds) {
  const WideDouble big = WideExp(5000), small = WideExp(-5000);
  EXPECT_EQ(big.ToDouble(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(small.ToDouble(), 0);
  EXPECT_NEAR((big * small).ToDouble(), 1, 1e-15);
  EXPECT_NEAR((big / WideExp(4999)).ToDouble(), std::exp(1), 1e-14);
  EXPECT_NEAR((Sqrt(big) / WideExp(2500)).ToDouble(), 1, 1e-15);
  EXPECT_NEAR(((big + big) / big).ToDouble(), 2, 1e-15);
  EXPECT_TRUE((big - big).IsZero());
  EXPECT_EQ(((big + small) / big).ToDouble(), 1);
  EXPECT_TRUE(small < big);
  EXPECT_TRUE(-big < small);
  EXPECT_FALSE(big < big);
}

TEST(WideDouble, ExponentialsAreExpsAndMultiply) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> within(-700, 700), beyond(-1e6, 1e6);
  for (int i = 0; i < 100000; ++i) {
    const double x = within(random);
    EXPECT_NEAR(WideExp(x).ToDouble(), Exp(x), 2 * std::numeric_limits<double>::epsilon() * Exp(x));
    const double y = std::round(beyond(random)), z = std::round(beyond(random));
    const double product = (WideExp(y) * WideExp(z) / WideExp(y + z)).ToDouble();
    EXPECT_NEAR(product, 1, 4e-15) << y << " " << z;
  }
}

TEST(WideSum, LeavesTheSameStateInAnyOrderAndFromAnyShards) {
  std::mt19937_64 random(7);
  for (const int64_t range : {3, 300, 600, 1500, 100000}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<Number> numbers = RandomNumbers(random, 1 + random() % 40, range);
      const WideSum want = SumOf(numbers);
      std::shuffle(numbers.begin(), numbers.end(), random);
      ExpectSame(SumOf(numbers), want);
      WideSum shards[4], merged;
      for (const Number& x : numbers) shards[random() % 4].Add(x.mantissa, x.exponent);
      std::shuffle(std::begin(shards), std::end(shards), random);
      for (const WideSum& shard : shards) merged.Merge(shard);
      ExpectSame(merged, want);
      WideSum read;
      EXPECT_TRUE(read.Restore(want.block(), want.top(), want.below()));
      ExpectSame(read, want);
    }
  }
}

TEST(WideSum, IsTheSumOfWhatIsNearTheLargest) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 200; ++round) {
    const auto shift = static_cast<int64_t>(random() % 2000000) - 1000000;
    std::vector<Number> numbers = RandomNumbers(random, 50, 120);
    long double sum = 0, square = 0;
    for (Number& x : numbers) {
      const long double value = ldexpl(x.mantissa, static_cast<int>(x.exponent));
      sum += value;
      square += value * value;
      x.exponent += shift;
    }
    numbers.push_back({1.0, shift - 100000});  // nothing beside the others
    WideSum squares;
    for (const Number& x : numbers) squares.AddSquare(x.mantissa, x.exponent);
    WideTotal total(shift), total_square(2 * shift);
    total.Add(SumOf(numbers));
    total_square.Add(squares);
    EXPECT_NEAR(static_cast<double>(total.sum().Round() / sum), 1, 1e-15);
    EXPECT_NEAR(static_cast<double>(total_square.sum().Round() / square), 1, 1e-15);
    EXPECT_EQ(SumOf(numbers).LeadingExponent() - shift, static_cast<int64_t>(ilogbl(sum)));
  }
}

TEST(WideSum, SpreadsDoNotCancel) {
  for (const int64_t shift : {0, -70000, 90000}) {
    WideSum sum, square;
    for (const double step : {-1.0, 0.0, 1.0}) {
      sum.Add(1 + step * 0x1p-50, shift);
      square.AddSquare(1 + step * 0x1p-50, shift);
    }
    WideTotal total(shift), squares(2 * shift);
    total.Add(sum);
    squares.Add(square);
    const WideDouble spread = SpreadOf(3, total, squares) / WideDouble(1, 2 * shift);
    EXPECT_EQ(spread.ToDouble(), 6 * 0x1p-100);
  }
}

TEST(WideSum, RoundsSumsBeyondTheLargestDouble) {
  ExactSum sum;
  const double largest = std::numeric_limits<double>::max();
  for (int i = 0; i < 1000; ++i) sum.Add(-largest);
  EXPECT_NEAR((WideRound(sum) / 1000).ToDouble() / largest, -1, 1e-15);
}

TEST(WideSum, RefusesWhatNoAdditionsLeave) {
  ExactSum one, tiny, huge, minus;
  one.Add(1);
  tiny.Add(0.25);
  huge.Add(1e300);
  minus.Add(-1);
  WideSum sum;
  EXPECT_TRUE(sum.Restore(5, one, {}));
  for (const ExactSum* wrong : {&tiny, &huge, &minus}) {
    EXPECT_FALSE(sum.Restore(0, *wrong, {}));
    EXPECT_FALSE(sum.Restore(0, one, *wrong));
  }
  EXPECT_FALSE(sum.Restore(1, {}, {}));
  EXPECT_FALSE(sum.Restore(0, {}, one));
  EXPECT_FALSE(sum.Restore(int64_t{1} << 60, one, {}));
}

}  // namespace
}  // namespace kcc
