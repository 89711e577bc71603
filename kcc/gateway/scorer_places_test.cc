#include "kcc/gateway/scorer_places.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <thread>
#include <vector>

namespace kcc {
namespace {

std::vector<ScorerPlace> TakeAll(ScorerPlaces& places, size_t kernel) {
  std::vector<ScorerPlace> held;
  while (ScorerPlace place = places.TakeServed(kernel)) held.push_back(std::move(place));
  return held;
}

TEST(ScorerPlaces, AKernelThatHoldsAllThatItCanLeavesTheOthersTheirOwn) {
  ScorerPlaces places;
  places.SetLimits(12, 4, 3);
  std::vector<ScorerPlace> stalled = TakeAll(places, 0);
  EXPECT_EQ(stalled.size(), 8u) << "two of its own, and six that are common";
  EXPECT_FALSE(places.HasServed(0));
  EXPECT_TRUE(places.HasServed(1));
  const std::vector<ScorerPlace> well = TakeAll(places, 1);
  EXPECT_EQ(well.size(), 2u);
  EXPECT_EQ(places.served(), 10u);
  stalled.clear();
  EXPECT_EQ(places.served(), 2u);
  EXPECT_TRUE(places.HasServed(1));
}

TEST(ScorerPlaces, WhatIsShownTakesNoPlaceFromWhatIsServed) {
  ScorerPlaces places;
  places.SetLimits(2, 3, 1);
  std::vector<ScorerPlace> probes;
  while (ScorerPlace place = places.TakeShown(1)) probes.push_back(std::move(place));
  EXPECT_EQ(probes.size(), 3u);
  EXPECT_TRUE(places.TakeShown(2)) << "another kernel's";
  EXPECT_EQ(TakeAll(places, 0).size(), 2u);
  EXPECT_EQ(places.shown(1), 3u);
  probes.clear();
  EXPECT_EQ(places.shown(1), 0u);
}

TEST(ScorerPlaces, ThereIsAlwaysOneUntilLimitsAreSet) {
  ScorerPlaces places;
  std::vector<ScorerPlace> held;
  for (int i = 0; i < 5000; ++i) held.push_back(places.TakeServed(0));
  EXPECT_TRUE(held.back());
  EXPECT_TRUE(places.TakeShown(0));
  places.SetLimits(1, 1, 1);
  EXPECT_FALSE(places.TakeServed(0)) << "what is held stays held";
  EXPECT_FALSE(places.TakeServed(kGatewayKernelsMax));
}

TEST(ScorerPlaces, ACopyHoldsNoneAndAMovedOneIsGivenBackOnce) {
  ScorerPlaces places;
  {
    ScorerPlace first = places.TakeServed(0);
    const ScorerPlace copy = first;
    EXPECT_FALSE(copy);
    ScorerPlace moved = std::move(first);
    moved = places.TakeServed(0);
    EXPECT_EQ(places.served(), 1u);
    first = std::move(moved);
    EXPECT_EQ(places.served(), 1u);
  }
  EXPECT_EQ(places.served(), 0u);
}

TEST(ScorerPlaces, WhateverIsTakenAndGivenBackTheCountsAreThoseThatAreHeld) {
  EXPECT_TRUE(rc::check([] {
    const size_t served = *rc::gen::inRange<size_t>(0, 20);
    const size_t shown = *rc::gen::inRange<size_t>(0, 5);
    ScorerPlaces places;
    places.SetLimits(served, shown, 3);
    std::vector<std::pair<int, ScorerPlace>> held;  // kernel, or -1 - kernel of what is shown
    for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000))) {
      const size_t kernel = static_cast<size_t>(step) % 3;
      if (step % 5 == 0 && !held.empty()) {
        held.erase(held.begin() + step % static_cast<int>(held.size()));
      } else if (step % 5 < 3) {
        const bool said = places.HasServed(kernel);
        ScorerPlace place = places.TakeServed(kernel);
        RC_ASSERT(said == static_cast<bool>(place));
        if (place) held.emplace_back(static_cast<int>(kernel), std::move(place));
      } else if (ScorerPlace place = places.TakeShown(kernel)) {
        held.emplace_back(-1 - static_cast<int>(kernel), std::move(place));
      }
      size_t of_served = 0;
      std::array<size_t, 3> of_shown{}, own{};
      for (const auto& [whose, place] : held) {
        if (whose >= 0) ++of_served, ++own[static_cast<size_t>(whose)];
        if (whose < 0) ++of_shown[static_cast<size_t>(-1 - whose)];
      }
      RC_ASSERT(places.served() == of_served && of_served <= served);
      for (size_t k = 0; k < 3; ++k) {
        RC_ASSERT(places.shown(k) == of_shown[k] && of_shown[k] <= shown);
        RC_ASSERT(own[k] >= served / 6 || places.HasServed(k));
      }
    }
    held.clear();
    RC_ASSERT(places.served() == 0u);
  }));
}

TEST(ScorerPlaces, OfManyThreadsNoneTakesMoreThanThereIs) {
  ScorerPlaces places;
  places.SetLimits(8, 2, 2);
  std::atomic<size_t> held{0}, most{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        const ScorerPlace shown = places.TakeShown(0);
        const ScorerPlace served = places.TakeServed(t % 2);
        if (!served) continue;
        const size_t seen = held.fetch_add(1) + 1;
        for (size_t had = most.load(); seen > had && !most.compare_exchange_weak(had, seen);) {
        }
        held.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most.load(), 8u);
  EXPECT_EQ(places.served(), 0u);
  EXPECT_EQ(places.shown(0), 0u);
}

}  // namespace
}  // namespace kcc
