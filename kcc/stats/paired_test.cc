#include "kcc/stats/paired.h"

#include <gtest/gtest.h>

#include "kcc/stats/beta.h"

namespace kcc {
namespace {

constexpr double kAlpha = 0.05;

// The chance that a sample of n is certified, exactly: over all counts.
double ChanceOfCertifying(int64_t n, double up, double down, double gap) {
  double chance = 0;
  const double differ = up + down;
  for (int64_t k = 0; k <= n; ++k) {
    const double p_k = BinomialPoint(k, n, differ);
    if (p_k < 1e-15) continue;
    for (int64_t u = 0; u <= k; ++u) {
      const double p = p_k * BinomialPoint(u, k, differ > 0 ? up / differ : 0);
      if (p > 1e-15 && CertifiesGap({u, k - u, n}, gap, kAlpha)) chance += p;
    }
  }
  return chance;
}

TEST(PairedGap, IsWronglyCertifiedInAtMostAlphaWhateverShareDiffers) {
  for (const int64_t n : {20, 60, 150}) {
    for (const double gap : {0.05, 0.1, 0.3}) {
      for (const double down : {0.0, 0.01, 0.05, 0.1, 0.2, 0.3}) {
        const double up = down + gap;
        if (up + down > 1) continue;
        EXPECT_LE(ChanceOfCertifying(n, up, down, gap), kAlpha) << n << " " << gap << " " << down;
      }
    }
  }
}

TEST(PairedGap, TheProbabilityRisesWithTheShareThatDiffersWhereTheProofSaysSo) {
  // P(S <= s) by brute force over the trinomial, against the one at a larger share.
  const int64_t n = 40;
  const double gap = 0.2;
  const auto at_most = [&](int64_t s, double differ) {
    double sum = 0;
    for (int64_t k = 0; k <= n; ++k) {
      for (int64_t u = 0; u <= k; ++u) {
        if (2 * u - k > s) continue;
        sum += BinomialPoint(k, n, differ) * BinomialPoint(u, k, (differ + gap) / 2 / differ);
      }
    }
    return sum;
  };
  for (int64_t s = -10; s + 1 <= 7; ++s) {  // floor(39 * 0.2)
    for (double differ = gap; differ + 0.04 <= (1 + gap * gap) / 2; differ += 0.04) {
      EXPECT_LE(at_most(s, differ), at_most(s, differ + 0.04) + 1e-15) << s << " " << differ;
    }
  }
}

TEST(PairedGap, HasTheStatedPower) {
  // A fifth of the requests differ, evenly: 218 show that the gap is below 0.1 in four of five
  // samples (counting both signs); the bets need about 365.
  const double one_side = ChanceOfCertifying(230, 0.1, 0.1, 0.1);
  EXPECT_GT(one_side, 0.9);
  EXPECT_LT(ChanceOfCertifying(170, 0.1, 0.1, 0.1), 0.9);
}

TEST(PairedGap, SaysNothingWhereNoProofCoversTheCounts) {
  EXPECT_FALSE(CertifiesGap({0, 0, 0}, 0.1, kAlpha));
  EXPECT_FALSE(CertifiesGap({0, 0, 1}, 0.1, kAlpha));
  EXPECT_FALSE(CertifiesGap({450, 550, 1000}, 0.1, kAlpha)) << "every unit differs";
  EXPECT_FALSE(CertifiesGap({150, 50, 1000}, 0.1, kAlpha)) << "at the gap";
  EXPECT_TRUE(CertifiesGap({50, 50, 1000}, 0.1, kAlpha));
  EXPECT_TRUE(CertifiesGap({0, 0, 1'000'000'000}, 0.001, kAlpha)) << "any size";
  for (int percent = 2; percent < 100; ++percent) {
    EXPECT_TRUE(CertifiesGap({0, 0, 2000}, percent / 100.0, kAlpha))
        << "fewer than the gap differ, so that on the boundary none scores -1: " << percent;
  }
}

}  // namespace
}  // namespace kcc
