#include "kcc/plane/rate_limit.h"

#include <gtest/gtest.h>

#include <string>

namespace kcc {
namespace {

constexpr int64_t kSecond = 1'000'000;

TEST(RateLimiter, ASecondsRequestsMayComeAtOnceAndThenOneByOne) {
  RateLimiter limiter;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limiter.WaitSeconds(1, 10, 0), 0);
  EXPECT_EQ(limiter.WaitSeconds(1, 10, 0), 1);
  EXPECT_EQ(limiter.WaitSeconds(1, 10, kSecond / 8), 0);
  EXPECT_EQ(limiter.WaitSeconds(1, 10, kSecond / 8), 1);
  EXPECT_EQ(limiter.WaitSeconds(2, 10, kSecond / 8), 0) << "another address";
}

TEST(RateLimiter, LessThanOneASecondTellsHowLongToWait) {
  RateLimiter limiter;
  EXPECT_EQ(limiter.WaitSeconds(1, 0.1, 0), 0);
  EXPECT_EQ(limiter.WaitSeconds(1, 0.1, 0), 10);
  EXPECT_EQ(limiter.WaitSeconds(1, 0.1, 4 * kSecond), 6);
  EXPECT_EQ(limiter.WaitSeconds(1, 0.1, 11 * kSecond), 0);
}

TEST(RateLimiter, NoLimitIsNone) {
  RateLimiter limiter;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(limiter.WaitSeconds(1, 0, 0), 0);
}

TEST(RateLimiter, AClockThatStandsOrGoesBackGivesNothing) {
  RateLimiter limiter;
  EXPECT_EQ(limiter.WaitSeconds(1, 1, 5 * kSecond), 0);
  EXPECT_EQ(limiter.WaitSeconds(1, 1, 0), 1);
  EXPECT_EQ(limiter.WaitSeconds(1, 1, 5 * kSecond), 1);
}

TEST(RateLimiter, OfTooManyAddressesTheOneThatWasQuietLongestIsForgotten) {
  RateLimiter limiter;
  const auto key = [](uint64_t i) { return i * RateLimiter::kPlaces; };  // all of one place
  for (uint64_t i = 1; i <= RateLimiter::kWays; ++i) {
    EXPECT_EQ(limiter.WaitSeconds(key(i), 1, static_cast<int64_t>(i)), 0);
  }
  EXPECT_EQ(limiter.WaitSeconds(key(9), 1, 10), 0);
  EXPECT_EQ(limiter.WaitSeconds(key(2), 1, 11), 1) << "is still known";
  EXPECT_EQ(limiter.WaitSeconds(key(1), 1, 12), 0) << "was forgotten";
}

TEST(RateKey, OfIpv6TheNetworkCounts) {
  EXPECT_EQ(RateKey("2001:db8:1:2::1", 7), RateKey("2001:db8:1:2:ffff::2", 7));
  EXPECT_NE(RateKey("2001:db8:1:2::1", 7), RateKey("2001:db8:1:3::1", 7));
  EXPECT_EQ(RateKey("fe80::1%eth0", 7), RateKey("fe80::2", 7));
  EXPECT_NE(RateKey("10.0.0.1", 7), RateKey("10.0.0.2", 7));
  EXPECT_NE(RateKey("10.0.0.1", 7), RateKey("10.0.0.1", 8));
}

}  // namespace
}  // namespace kcc
