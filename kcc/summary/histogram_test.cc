#include "kcc/summary/histogram.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

rc::Gen<double> AnyValue() {
  return rc::gen::map(rc::gen::arbitrary<uint64_t>(), [](uint64_t bits) {
    const auto value = std::bit_cast<double>(bits);
    return std::isnan(value) ? 1.0 : value;
  });
}

TEST(Histogram, BucketsHoldTheirValuesAndKeepTheOrder) {
  EXPECT_TRUE(rc::check("edges", [] {
    const double a = *AnyValue();
    const double b = *AnyValue();
    const auto bucket = Histogram::BucketOf(a);
    RC_ASSERT(Histogram::LowerEdge(bucket) <= a);
    RC_ASSERT(a <= Histogram::UpperEdge(bucket));
    if (a < b) RC_ASSERT(bucket <= Histogram::BucketOf(b));
    const double width = Histogram::UpperEdge(bucket) - Histogram::LowerEdge(bucket);
    if (std::fabs(a) > 1e-300 && std::isfinite(a)) {
      RC_ASSERT(width <= std::fabs(a) * Histogram::kResolution);
    }
  }));
}

TEST(Histogram, SpecialValues) {
  EXPECT_EQ(Histogram::BucketOf(-0.0), Histogram::BucketOf(0.0));
  EXPECT_EQ(Histogram::LowerEdge(Histogram::BucketOf(0.0)), 0);
  EXPECT_EQ(Histogram::UpperEdge(Histogram::BucketOf(kInf)), kInf);
  EXPECT_EQ(Histogram::LowerEdge(Histogram::BucketOf(kInf)), kInf);
  EXPECT_EQ(Histogram::LowerEdge(Histogram::BucketOf(-kInf)), -kInf);
  EXPECT_EQ(Histogram::UpperEdge(Histogram::BucketOf(-kInf)), -kInf);
  EXPECT_LT(Histogram::BucketOf(std::numeric_limits<double>::max()), Histogram::BucketOf(kInf));
}

TEST(Histogram, CountsWhatWasAddedInOrder) {
  EXPECT_TRUE(rc::check("entries", [] {
    const auto values = *rc::gen::container<std::vector<double>>(AnyValue());
    Histogram histogram;
    std::map<Histogram::Bucket, uint64_t> expected;
    for (const double value : values) {
      histogram.Add(value);
      ++expected[Histogram::BucketOf(value)];
    }
    RC_ASSERT(histogram.Entries() ==
              std::vector<Histogram::Entry>(expected.begin(), expected.end()));
    RC_ASSERT(histogram.total() == values.size());
  }));
}

}  // namespace
}  // namespace kcc
