#include "kcc/train/exact_tally.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kcc {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint64_t kFar = std::numeric_limits<uint64_t>::max();

TEST(UlpDistance, CountsTheFloatsOnTheWay) {
  struct Case {
    float a, b;
    uint64_t distance;
  };
  const float next = std::nextafter(-1.5f, 0.0f);
  const float least = std::numeric_limits<float>::denorm_min();
  for (const Case& c : {Case{-1.5f, -1.5f, 0},
                        {-1.5f, next, 1},
                        {1.0f, 2.0f, 1u << 23},
                        {least, -least, 2},
                        {0.0f, -0.0f, kFar},
                        {kNan, 1.0f, kFar},
                        {kNan, kNan, 0},
                        {-kInf, -kInf, 0},
                        {std::numeric_limits<float>::max(), kInf, 1}}) {
    EXPECT_EQ(UlpDistance(c.a, c.b), c.distance) << c.a << " " << c.b;
    EXPECT_EQ(UlpDistance(c.b, c.a), c.distance) << c.b << " " << c.a;
  }
}

TEST(ExactTally, NothingSeenIsNotExact) {
  ExactTally tally;
  EXPECT_FALSE(tally.exact());
  tally.Add(-1.0f, -1.0f, true);
  EXPECT_TRUE(tally.exact());
}

// Log-probs are read from rows of logits that a kernel may store in few bits: what they hide, the
// row shows.
TEST(ExactTally, ARowThatDiffersIsNotExactThoughItsLogProbDoesNot) {
  ExactTally tally;
  tally.Add(-1.0f, -1.0f, false);
  EXPECT_FALSE(tally.exact());
  EXPECT_EQ(tally.unequal, 0u);
}

TEST(ExactTally, PutsDistancesIntoPowersOfTwo) {
  ExactTally tally;
  float x = -1.0f;
  for (int i = 0; i < 5; ++i) tally.Add(-1.0f, x = std::nextafter(x, -2.0f), true);
  tally.Add(-1.0f, kNan, true);
  EXPECT_EQ(tally.ulps[0], 1u);  // 1
  EXPECT_EQ(tally.ulps[1], 2u);  // 2 and 3
  EXPECT_EQ(tally.ulps[2], 2u);  // 4 and 5
  EXPECT_EQ(tally.ulps[kUlpBuckets - 1], 1u);
  EXPECT_EQ(tally.largest, std::numeric_limits<double>::infinity());
  ExactTally sum;
  sum.Merge(tally);
  sum.Merge(tally);
  EXPECT_EQ(sum.unequal, 12u);
  EXPECT_EQ(sum.ulps[1], 4u);
}

}  // namespace
}  // namespace kcc
