#include "kcc/numeric/exact_sum.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace kcc {
namespace {

constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();
constexpr double kInf = std::numeric_limits<double>::infinity();

template <class Sum>
Sum SumOf(const std::vector<double>& values) {
  Sum sum;
  for (const double value : values) sum.Add(value);
  return sum;
}

// Any finite double, all exponents alike: the bits are drawn, not the value.
rc::Gen<double> AnyFinite() {
  return rc::gen::map(rc::gen::arbitrary<uint64_t>(), [](uint64_t bits) {
    const auto value = std::bit_cast<double>(bits);
    return std::isfinite(value) ? value : 1.5;
  });
}

struct Case {
  const char* name;
  std::vector<double> values;
  double expected;
};

TEST(ExactSum, RoundsOnceAtTheEnd) {
  const Case cases[] = {
      {"empty", {}, 0},
      {"minus zero is zero", {-0.0}, 0},
      {"what a plain sum loses", {1e100, 1, -1e100}, 1},
      {"beyond the range in between", {kMax, kMax, -kMax}, kMax},
      {"beyond the range at the end", {kMax, kMax}, kInf},
      {"negative overflow", {-kMax, -kMax}, -kInf},
      {"subnormals", {kTiny, kTiny, kTiny}, 3 * kTiny},
      {"subnormal under a large number", {1, kTiny, -1}, kTiny},
      {"tie to even, down", {1, std::ldexp(1, -53)}, 1},
      {"tie to even, up", {1 + std::ldexp(1, -52), std::ldexp(1, -53)}, 1 + std::ldexp(1, -51)},
      {"just above a tie", {1, std::ldexp(1, -53), kTiny}, 1 + std::ldexp(1, -52)},
      {"just below a tie", {1, std::ldexp(1, -53), -kTiny}, 1},
      {"rounding up to the next power", {2, -std::ldexp(1, -60)}, 2},
      {"largest that still rounds down", {kMax, std::ldexp(1, 969)}, kMax},
      {"half a step above the largest", {kMax, std::ldexp(1, 970)}, kInf},
  };
  for (const Case& row : cases) {
    EXPECT_EQ(SumOf<ExactSum>(row.values).Round(), row.expected) << row.name;
    EXPECT_EQ(SumOf<ExactProductSum>(row.values).Round(), row.expected) << row.name << ", wide";
  }
}

TEST(ExactSum, AgreesWithIntegersInFixedPoint) {
  // Values of the form k * 2^-40 sum exactly in 128-bit integers.
  EXPECT_TRUE(rc::check("sum of fixed-point numbers", [](const std::vector<int64_t>& numerators) {
    __int128 reference = 0;
    ExactSum sum;
    for (const int64_t numerator : numerators) {
      const int64_t k = numerator >> 11;  // 53 bits
      reference += k;
      sum.Add(std::ldexp(static_cast<double>(k), -40));
    }
    sum.Add(-std::ldexp(static_cast<double>(static_cast<int64_t>(reference >> 30)), -10));
    sum.Add(
        -std::ldexp(static_cast<double>(static_cast<int64_t>(reference & ((1 << 30) - 1))), -40));
    RC_ASSERT(sum.Sign() == 0);
  }));
}

TEST(ExactSum, OrderSplitAndMergeDoNotChangeTheState) {
  EXPECT_TRUE(rc::check("any order, any split", [] {
    auto values = *rc::gen::container<std::vector<double>>(AnyFinite());
    const auto cut = static_cast<std::ptrdiff_t>(*rc::gen::inRange<size_t>(0, values.size() + 1));
    const ExactSum whole = SumOf<ExactSum>(values);
    ExactSum left = SumOf<ExactSum>({values.begin(), values.begin() + cut});
    const ExactSum right = SumOf<ExactSum>({values.begin() + cut, values.end()});
    left.Merge(right);
    std::reverse(values.begin(), values.end());
    RC_ASSERT(left.Canonical() == whole.Canonical());
    RC_ASSERT(SumOf<ExactSum>(values).Canonical() == whole.Canonical());
  }));
}

TEST(ExactSum, ManyAdditionsCarry) {
  ExactSum sum;
  ExactSum blocks;
  ExactSum block;
  for (int i = 0; i < 100000; ++i) {
    sum.Add(kMax);
    block.Add(kMax);
    if (i % 1999 == 0) {
      blocks.Merge(block);
      block.Clear();
    }
  }
  blocks.Merge(block);
  EXPECT_EQ(sum.Canonical(), blocks.Canonical());
  for (int i = 0; i < 99999; ++i) sum.Add(-kMax);
  EXPECT_EQ(sum.Round(), kMax);
}

TEST(ExactSum, CanonicalFormRestoresAndRefusesOthers) {
  EXPECT_TRUE(rc::check("round trip", [] {
    const ExactSum sum = SumOf<ExactSum>(*rc::gen::container<std::vector<double>>(AnyFinite()));
    ExactSum restored;
    RC_ASSERT(restored.Restore(sum.Canonical()));
    RC_ASSERT(restored == sum);
  }));
  ExactSum sum;
  EXPECT_FALSE(sum.Restore({1, 0, {}})) << "a sign without words";
  EXPECT_FALSE(sum.Restore({1, 3, {0, 1}})) << "a low zero word";
  EXPECT_FALSE(sum.Restore({1, 3, {1, 0}})) << "a high zero word";
  EXPECT_FALSE(sum.Restore({1, 67, {1, 1}})) << "beyond the range";
  EXPECT_FALSE(sum.Restore({2, 0, {1}})) << "no such sign";
}

TEST(ExactSum, ProductsAreExactWhereDoublesOverflowAndUnderflow) {
  ExactProductSum sum;
  sum.AddProduct(kMax, kMax);
  sum.AddProduct(kTiny, kTiny);
  sum.AddProduct(kMax, -kMax);
  EXPECT_EQ(sum.Sign(), 1);
  EXPECT_EQ(sum.Round(), 0) << "2^-2148 rounds to zero but is not zero";
  sum.AddProduct(-kTiny, kTiny);
  EXPECT_EQ(sum.Sign(), 0);
}

TEST(ExactSum, ProductsAgreeWithTheErrorFreeTransformation) {
  EXPECT_TRUE(rc::check("a*b = hi + lo", [] {
    const double a = std::ldexp(*rc::gen::cast<double>(rc::gen::arbitrary<int64_t>()), -30);
    const double b = std::ldexp(*rc::gen::cast<double>(rc::gen::arbitrary<int64_t>()), -50);
    ExactProductSum sum;
    sum.AddProduct(a, b);
    const double hi = a * b;
    sum.Add(-hi);
    sum.Add(-std::fma(a, b, -hi));
    RC_ASSERT(sum.Sign() == 0);
  }));
}

TEST(ExactSum, ComparesAMeanWithoutRounding) {
  ExactSum sum;
  for (int i = 0; i < 10; ++i) sum.Add(0.1);
  EXPECT_EQ(CompareToProduct(sum, 0.1, 10), 0);
  EXPECT_GT(CompareToProduct(sum, std::nextafter(0.1, 0), 10), 0);
  EXPECT_LT(CompareToProduct(sum, std::nextafter(0.1, 1), 10), 0);
  sum.Add(kTiny);
  EXPECT_GT(CompareToProduct(sum, 0.1, 10), 0);
  ExactSum large;
  large.Add(std::ldexp(1, 60));
  EXPECT_EQ(CompareToProduct(large, 0.5, uint64_t{1} << 61), 0);
}

}  // namespace
}  // namespace kcc
