#include "kcc/rl/row_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

std::vector<double> Ratios(size_t count, double scale, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> d(count + kRlLanes, 0.0);
  for (size_t i = 0; i < count; ++i) d[i] = scale * normal(random);
  return d;
}

TEST(RlRowKernel, ExcessIsWithinAFewUlpOfExpm1) {
  for (const double scale : {1e-12, 1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0}) {
    const auto d = Ratios(1000, scale, 1);
    std::vector<double> excess(d.size());
    SumRlRow(d.data(), nullptr, 1000, excess.data(), BestTarget());
    for (size_t i = 0; i < 1000; ++i) {
      const auto exact = static_cast<double>(std::expm1(static_cast<long double>(d[i])));
      ASSERT_NEAR(excess[i], exact, 1e-15 * std::fabs(exact)) << d[i];
    }
  }
}

// (e^d - 1 - d), without cancellation.
long double ResidualOf(long double d) {
  if (fabsl(d) > 0.5L) return expm1l(d) - d;
  long double sum = 0, term = 1;
  for (int k = 1; k < 25; ++k) {
    term *= d / k;
    if (k > 1) sum += term;
  }
  return sum;
}

TEST(RlRowKernel, BothPolynomialsAreWithinAFewUlp) {
  constexpr size_t kPoints = 40000;  // both sides of kRlSmall, which single tokens are chosen by
  for (size_t i = 0; i < kPoints; ++i) {
    const double d = -1.2 + 2.4 * static_cast<double>(i) / kPoints;
    double excess[kRlRoom];
    const RlRowSums sums = SumRlRow(&d, nullptr, 1, excess, BestTarget());
    const long double e = expm1l(d), k3 = ResidualOf(d);
    ASSERT_LE(fabsl(excess[0] - e), 4 * 0x1p-52L * fabsl(e)) << d;
    const int ulp = std::fabs(d) < 0.34 ? 4 : 8;  // beyond ln2 / 2 it is e - d
    ASSERT_LE(fabsl(sums.k3 - k3), ulp * 0x1p-52L * k3) << d;
  }
}

TEST(RlRowKernel, AnOutlierChangesThePolynomialOfItsOwnChunkOnly) {
  std::vector<double> d(4 * kRlChunk, 0.1), plain(d.size()), other(d.size());
  SumRlRow(d.data(), nullptr, d.size(), plain.data(), BestTarget());
  d[kRlChunk + 5] = 3;
  for (const Target target : AvailableTargets()) {
    SumRlRow(d.data(), nullptr, d.size(), other.data(), target);
    for (size_t i = 0; i < d.size(); ++i) {
      if (i / kRlChunk != 1) {
        ASSERT_EQ(plain[i], other[i]) << i;
      }
      ASSERT_NEAR(other[i], std::expm1(d[i]), 1e-15 * std::expm1(d[i])) << i;
    }
  }
}

TEST(SumRlPhi, WeightsThatNoBoundTouchesHaveTheBitsOfTheGeneralRule) {
  const auto d = Ratios(203, 0.3, 4);
  std::vector<double> excess(d.size() + kRlRoom);
  SumRlRow(d.data(), nullptr, 203, excess.data(), BestTarget());
  for (const Target target : AvailableTargets()) {
    RlPhiInput in;
    in.excess = excess.data();
    in.count = 203;
    in.low = 0;
    in.high = 100;
    in.sequence_ratio = 1.5;
    std::vector<float> general(203), inside(203);
    const RlPhiSums want = SumRlPhi(in, general.data(), nullptr, target);
    in.inside = true;
    const RlPhiSums got = SumRlPhi(in, inside.data(), nullptr, target);
    EXPECT_EQ(std::memcmp(&want, &got, sizeof(got)), 0) << TargetName(target);
    EXPECT_EQ(general, inside);
  }
}

TEST(RlRowKernel, SumsAgreeWithTheTermsOneByOne) {
  for (const double scale : {1e-5, 1e-2, 1.0}) {
    for (const size_t count : {0u, 1u, 7u, 8u, 9u, 257u}) {
      const auto d = Ratios(count, scale, 2);
      const RlRowSums sums = SumRlRow(d.data(), d.data(), count, nullptr, BestTarget());
      long double k3 = 0, reverse = 0, square = 0, below = 0, abs_d = 0, plain = 0;
      double low = 0, high = 0;
      for (size_t i = 0; i < count; ++i) {
        const double e = Expm1(d[i]);
        k3 += ExpResidual(d[i]);
        reverse += static_cast<long double>(d[i]) * e - ExpResidual(d[i]);
        square += static_cast<long double>(e) * e;
        below += std::max(0.0, -e);
        abs_d += std::fabs(d[i]);
        plain += d[i];
        low = i == 0 ? d[i] : std::min(low, d[i]);
        high = i == 0 ? d[i] : std::max(high, d[i]);
      }
      const auto near = [&](double got, long double want) {
        EXPECT_NEAR(got, static_cast<double>(want), 1e-12 * static_cast<double>(fabsl(want)));
      };
      near(sums.k3, k3);
      near(sums.k3_reverse, reverse);
      near(sums.square_e, square);
      near(sums.below, below);
      near(sums.abs_d, abs_d);
      EXPECT_NEAR(sums.d, static_cast<double>(plain), 1e-13 * static_cast<double>(abs_d));
      EXPECT_EQ(sums.rollout, sums.d);
      EXPECT_EQ(sums.train, 2 * sums.d);
      EXPECT_EQ(sums.min_d, low);
      EXPECT_EQ(sums.max_d, high);
    }
  }
}

TEST(RlRowKernel, EveryTargetGivesTheSameBits) {
  for (const double scale : {1e-4, 0.5, 60.0}) {
    const auto d = Ratios(1003, scale, 3);
    const RlRowSums want = SumRlRow(d.data(), d.data(), 1003, nullptr, Target::kScalar);
    for (const Target target : AvailableTargets()) {
      const RlRowSums got = SumRlRow(d.data(), d.data(), 1003, nullptr, target);
      EXPECT_EQ(std::memcmp(&got, &want, sizeof(got)), 0) << TargetName(target);
    }
  }
}

TEST(RlBuckets, HoldTheirValuesAndRise) {
  std::vector<uint32_t> counts(kRlBuckets);
  for (const double d : {0.0, -0.0, 1e-12, -1e-12, 1e-4, -1e-4, 0.7, -0.7, 3.0, -3.0, 699.0}) {
    std::fill(counts.begin(), counts.end(), 0);
    CountRlBuckets(&d, 1, counts.data());
    for (int b = 0; b < kRlBuckets; ++b) {
      if (counts[static_cast<size_t>(b)] == 0) continue;
      const auto [lo, hi] = RlBucketEdges(b);
      EXPECT_LE(lo, d);
      EXPECT_GE(hi, d);
      if (std::fabs(d) > 1e-8) {
        EXPECT_LT(hi - lo, std::fabs(d) / 60);
      }
    }
  }
  for (int b = 1; b < kRlBuckets; ++b) {
    ASSERT_GE(RlBucketEdges(b)[0], RlBucketEdges(b - 1)[1]);
  }
}

}  // namespace
}  // namespace kcc
