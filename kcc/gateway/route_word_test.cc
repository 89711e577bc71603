#include "kcc/gateway/route_word.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>
#include <string>

namespace kcc {
namespace {

TEST(RouteWord, BeforeARouteIsPublishedRequestsAreRefusedAndNothingIsSampled) {
  const RouteWords words;
  EXPECT_EQ(words.route(), Route24());
  EXPECT_EQ(words.sampling(), Sampling24());
  EXPECT_FALSE(PickKernel(words.route(), 0));
  EXPECT_EQ(words.allowed(), ~uint64_t{0});
}

TEST(RouteWord, WordsSayWhatWasPublished) {
  EXPECT_TRUE(rc::check([] {
    const auto kernel = [] { return *rc::gen::element<uint8_t>(0, 1, 31, 62, 63, kNoKernel); };
    const auto share = [] {
      return *rc::gen::element<uint32_t>(0, 1, kWholeShare / 3, kWholeShare - 1, kWholeShare);
    };
    RouteWords words;
    const Route24 route{kernel(), kernel(), share()};
    const Sampling24 sampling{share(), kernel(), share(), kernel()};
    words.Publish(route);
    words.Publish(sampling);
    RC_ASSERT(words.route() == route);
    RC_ASSERT(words.sampling() == sampling);
  }));
}

TEST(RouteWord, SharesAreExactOverAllHashesThatTellThemApart) {
  for (const double share : {0.001, 1.0 / 3, 1.0}) {
    const Route24 route{0, 1, ShareOf(share)};
    uint32_t canary = 0;
    for (uint32_t part = 0; part < kWholeShare; ++part) {
      canary += PickKernel(route, uint64_t{part} << 40 | 0xFFFF) == 1 ? 1 : 0;
    }
    EXPECT_EQ(canary, ShareOf(share));
    EXPECT_NEAR(canary / double{kWholeShare}, share, 1e-7);
  }
}

TEST(RouteWord, SharesOfNoNumberAreNone) {
  EXPECT_EQ(ShareOf(-1), 0u);
  EXPECT_EQ(ShareOf(std::stod("nan")), 0u);
  EXPECT_EQ(ShareOf(7), kWholeShare);
  EXPECT_FALSE(IsSampled(0, 0));
  EXPECT_TRUE(IsSampled(kWholeShare, ~uint64_t{0}));
}

TEST(RouteWord, ASessionStaysWhileTheRouteDoesAndAWiderCanaryMovesNoneBack) {
  EXPECT_TRUE(rc::check([] {
    const uint64_t hash = *rc::gen::arbitrary<uint64_t>();
    const uint32_t narrow = *rc::gen::inRange<uint32_t>(0, kWholeShare);
    const uint32_t wide = *rc::gen::inRange<uint32_t>(narrow, kWholeShare + 1);
    const Route24 route{0, 1, narrow};
    RC_ASSERT(PickKernel(route, hash) == PickKernel(route, hash));
    if (PickKernel(route, hash) == 1) RC_ASSERT(PickKernel({0, 1, wide}, hash) == 1);
  }));
}

TEST(RouteWord, HashesAreTheSameOnEveryMachine) {
  EXPECT_EQ(HashBytes(1, "session-1"), HashBytes(1, std::string("session-1")));
  std::set<uint64_t> hashes;
  for (const char* key : {"", "a", "b", "ab", "ba", "abcdefgh", "abcdefghi"}) {
    for (const uint64_t salt : {uint64_t{0}, uint64_t{1}, uint64_t{2}})
      hashes.insert(HashBytes(salt, key));
  }
  EXPECT_EQ(hashes.size(), 21u);
  int canary = 0;
  for (int i = 0; i < 10000; ++i) {
    canary += IsSampled(ShareOf(0.1), HashBytes(3, "user-" + std::to_string(i))) ? 1 : 0;
  }
  EXPECT_NEAR(canary, 1000, 120);
}

}  // namespace
}  // namespace kcc
