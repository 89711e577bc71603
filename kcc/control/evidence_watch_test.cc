#include "kcc/control/evidence_watch.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <vector>

namespace kcc {
namespace {

TEST(EvidenceWatch, StaleIsWhatIsOfferedForAMinuteAndBecomesNoEvidence) {
  EvidenceWatch watch(60);
  watch.Look("a", 0, 100, 0);
  EXPECT_FALSE(watch.Look("a", 0, 100, 10'000)) << "a quiet night";
  EXPECT_FALSE(watch.Look("a", 5, 100, 10'001));
  EXPECT_FALSE(watch.Look("a", 9, 100, 10'060));
  EXPECT_TRUE(watch.Look("a", 9, 100, 10'061)) << "though nothing more came";
  EXPECT_TRUE(watch.of("a").stale);
  EXPECT_EQ(watch.of("a").offered, 9u);
  EXPECT_EQ(watch.of("a").waits_s, 60);
  EXPECT_FALSE(watch.of("b").stale);
  EXPECT_TRUE(watch.Look("a", 10, 101, 10'070)) << "evidence comes again";
  EXPECT_FALSE(watch.of("a").stale);
}

TEST(EvidenceWatch, WhatWasOfferedBeforeTheNewestEvidenceIsNoFault) {
  EvidenceWatch watch(60);
  watch.Look("a", 0, 0, 0);
  watch.Look("a", 50, 40, 1);
  EXPECT_FALSE(watch.Look("a", 50, 40, 1000));
  EXPECT_EQ(watch.of("a").offered, 0u);
}

TEST(EvidenceWatch, AKernelWithoutAnyEvidenceIsStaleToo) {
  EvidenceWatch watch(60);
  watch.Look("a", 3, 0, 0);  // what came before the first look is not counted
  watch.Look("a", 4, 0, 1);
  EXPECT_TRUE(watch.Look("a", 9, 0, 61));
  EXPECT_EQ(WhyStale(watch.of("a"), 5000),
            "for 60 s none of 6 sampled requests became evidence; there is none yet");
  EvidenceAge age = watch.of("a");
  age.newest_ms = 1000;
  EXPECT_EQ(WhyStale(age, 63'999),
            "for 60 s none of 6 sampled requests became evidence; the newest is 62 s old");
}

// By the definition: no evidence since a time at which something was offered.
TEST(EvidenceWatch, AgreesWithTheDefinitionOnAnyHistory) {
  EXPECT_TRUE(rc::check([] {
    EvidenceWatch watch(10);
    uint64_t offered = 0;
    int64_t audited = 0;
    double now = 0, first_offer = -1;
    watch.Look("a", 0, 0, 0);
    for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 12))) {
      now += step;
      if (step % 3 == 1) {
        ++offered;
        if (first_offer < 0) first_offer = now;
      }
      if (step % 4 == 3) {
        ++audited;
        first_offer = -1;
      }
      watch.Look("a", offered, audited, now);
      RC_ASSERT(watch.of("a").stale == (first_offer >= 0 && now - first_offer >= 10));
    }
  }));
}

}  // namespace
}  // namespace kcc
