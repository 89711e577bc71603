#include "kcc/stats/binomial.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <algorithm>
#include <cmath>
#include <vector>

#include "kcc/stats/simulation.h"

namespace kcc {
namespace {

constexpr double kAlpha = 0.05;

int64_t LeastCertifyingCount(int64_t exceeding, double eps) {
  int64_t n = std::max<int64_t>(exceeding, 1);
  while (!CertifiesRate({exceeding, n}, eps, kAlpha)) ++n;
  return n;
}

TEST(CertifiesRate, NeedsThePublishedSampleSizes) {
  const int64_t exceeding[] = {0, 1, 2, 5, 10};
  const struct {
    double eps;
    int64_t needed[5];
  } rows[] = {
      {0.10, {29, 46, 61, 103, 167}},
      {0.05, {59, 93, 124, 208, 336}},
      {0.01, {299, 473, 628, 1049, 1693}},
      {0.001, {2995, 4742, 6294, 10511, 16959}},
  };
  for (const auto& row : rows) {
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(LeastCertifyingCount(exceeding[i], row.eps), row.needed[i])
          << "eps " << row.eps << ", exceeding " << exceeding[i];
    }
  }
}

TEST(DecideRate, WithoutDataNothingIsDecided) {
  for (const double eps : {0.0, 0.1, 1.0}) {
    EXPECT_EQ(DecideRate({0, 0}, eps, kAlpha), RateDecision::kUndecided) << eps;
  }
}

TEST(DecideRate, ZeroRateIsRefutedByOneExceedanceAndNeverCertified) {
  EXPECT_EQ(DecideRate({1, 1'000'000}, 0, 1e-12), RateDecision::kRefuted);
  EXPECT_EQ(DecideRate({0, 1'000'000'000}, 0, kAlpha), RateDecision::kUndecided);
}

TEST(DecideRate, PointEstimateBeyondTheThresholdIsNotYetARefutation) {
  EXPECT_EQ(DecideRate({1, 9}, 0.1, kAlpha), RateDecision::kUndecided);
  EXPECT_EQ(DecideRate({6, 20}, 0.1, kAlpha), RateDecision::kRefuted);
}

TEST(ClopperPearson, AgreesWithTheTestItInverts) {
  const bool ok = rc::check("certify iff upper <= eps, refute iff lower >= eps", [] {
    const int64_t n = *rc::gen::inRange<int64_t>(1, 5000);
    const int64_t x = *rc::gen::inRange<int64_t>(0, n + 1);
    const double eps = *rc::gen::inRange(1, 1000) / 1000.0;
    const double upper = RateUpperBound({x, n}, kAlpha);
    const double lower = RateLowerBound({x, n}, kAlpha);
    RC_ASSERT(lower <= upper);
    if (std::abs(upper - eps) > 1e-12) {
      RC_ASSERT(CertifiesRate({x, n}, eps, kAlpha) == (upper <= eps));
    }
    if (std::abs(lower - eps) > 1e-12) {
      RC_ASSERT(RefutesRate({x, n}, eps, kAlpha) == (lower >= eps));
    }
  });
  EXPECT_TRUE(ok);
}

TEST(ClopperPearson, EndsAreTrivialWhereTheDataSayNothing) {
  EXPECT_EQ(RateInterval({0, 0}, kAlpha), (Interval{0, 1}));
  EXPECT_EQ(RateLowerBound({0, 50}, kAlpha), 0);
  EXPECT_EQ(RateUpperBound({50, 50}, kAlpha), 1);
}

TEST(ClopperPearson, HardClauseOnNSamplesCertifiesAboutThreeOverN) {
  EXPECT_NEAR(RateUpperBound({0, 1'000'000'000}, kAlpha) * 1e9, 2.9957322691, 1e-9);
}

TEST(QuantileRank, IsTheLeastRankWithTheConfidence) {
  EXPECT_EQ(QuantileUpperRank(58, 0.95, kAlpha), std::nullopt);  // 0.95^58 > 0.05
  EXPECT_EQ(QuantileUpperRank(59, 0.95, kAlpha), 59);
  EXPECT_EQ(QuantileUpperRank(93, 0.95, kAlpha), 92);
  EXPECT_EQ(QuantileUpperRank(0, 0.5, kAlpha), std::nullopt);
}

TEST(QuantileRank, UpperBoundBelowTheThresholdIsTheCountTest) {
  // Q_p <= t certified by the order statistic iff the rate of v > t is certified to be <= 1-p. The
  // values are few, so ties abound. p is a binary fraction: 1-p is then exact.
  const bool ok = rc::check("v_(u) <= t iff certified", [] {
    const auto values = *rc::gen::container<std::vector<int>>(200, rc::gen::inRange(0, 12));
    const double p = *rc::gen::element(0.5, 0.75, 0.875, 0.96875);
    const int t = *rc::gen::inRange(0, 12);
    std::vector<int> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const int64_t beyond =
        std::count_if(values.begin(), values.end(), [&](int v) { return v > t; });
    const auto rank = QuantileUpperRank(200, p, kAlpha);
    RC_ASSERT(rank.has_value());
    RC_ASSERT((sorted[static_cast<size_t>(*rank - 1)] <= t) ==
              CertifiesRate({beyond, 200}, 1 - p, kAlpha));
  });
  EXPECT_TRUE(ok);
}

TEST(QuantileRank, CoversTheTrueQuantile) {
  constexpr uint64_t kSeed = 20240901;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomStream random(kSeed);
  constexpr int kRuns = 4000;
  constexpr int64_t kCount = 100;
  const auto upper = QuantileUpperRank(kCount, 0.95, kAlpha);
  ASSERT_TRUE(upper);
  int below = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> v(kCount);
    for (double& x : v) x = random.Uniform();
    std::sort(v.begin(), v.end());
    below += v[static_cast<size_t>(*upper - 1)] < 0.95 ? 1 : 0;
  }
  const double bound = kAlpha + 3 * std::sqrt(kAlpha * (1 - kAlpha) / kRuns);
  EXPECT_LE(below, bound * kRuns);
  EXPECT_GT(below, 0);  // not vacuous
}

TEST(DecideCorpus, WholeCorpusIsAFact) {
  EXPECT_EQ(DecideCorpus({10, 100}, 100, 10, kAlpha), RateDecision::kCertified);
  EXPECT_EQ(DecideCorpus({11, 100}, 100, 10, kAlpha), RateDecision::kRefuted);
}

TEST(DecideCorpus, MoreBadThanAllowedIsAProof) {
  EXPECT_EQ(DecideCorpus({11, 12}, 1'000'000, 10, 1e-15), RateDecision::kRefuted);
}

TEST(DecideCorpus, NeedsFewerThanTheBinomial) {
  int64_t n = 1;
  while (DecideCorpus({0, n}, 100, 10, kAlpha) != RateDecision::kCertified) ++n;
  EXPECT_LT(n, 29);
  EXPECT_EQ(n, 23);
  EXPECT_EQ(DecideCorpus({0, 0}, 100, 10, kAlpha), RateDecision::kUndecided);
}

}  // namespace
}  // namespace kcc
