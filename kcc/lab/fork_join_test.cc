#include "kcc/lab/fork_join.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace kcc {
namespace {

TEST(ForkJoin, VisitsEveryIndexOnce) {
  ForkJoin pool(4);
  std::vector<std::atomic<int>> visits(37);
  pool.Run(visits.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) ++visits[i];
  });
  for (const std::atomic<int>& count : visits) EXPECT_EQ(count, 1);
}

TEST(ForkJoin, ThrowsWhatAPartThrewAfterAllHaveEnded) {
  ForkJoin pool(4);
  for (size_t bad = 0; bad < 4; ++bad) {
    std::atomic<int> ended{0};
    const auto job = [&](size_t begin, size_t) {
      if (begin / 10 == bad) throw std::bad_alloc();
      ++ended;
    };
    EXPECT_THROW(pool.Run(40, job), std::bad_alloc);
    EXPECT_EQ(ended, 3);
  }
}

TEST(ForkJoin, OfSeveralThrowsTheLowestPartsAndCanBeUsedAgain) {
  ForkJoin pool(3);
  const auto fail = [](size_t begin, size_t) { throw std::runtime_error(std::to_string(begin)); };
  for (int again = 0; again < 100; ++again) {
    try {
      pool.Run(30, fail);
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "0");
    }
    std::atomic<size_t> sum{0};
    pool.Run(30, [&](size_t begin, size_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 30u);
  }
}

// Threads that come late, to a round that is over or to a pool that is being taken down.
TEST(ForkJoin, NothingIsDoneTwiceOrLateInManyShortRounds) {
  for (int pools = 0; pools < 50; ++pools) {
    ForkJoin pool(4);
    for (size_t round = 1; round <= 200; ++round) {
      std::vector<size_t> seen(round,
                               0);  // of this round alone: a late part would write to freed memory
      pool.Run(round, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) seen[i] += round;
      });
      for (const size_t one : seen) ASSERT_EQ(one, round);
    }
  }
}

// One part waits until another has been done: the caller takes what no worker has, so at most one
// thread besides the one that waits is needed.
// A thread may see the last round late, when the end has begun. Before, it could take the end's
// round for one that it had worked off, and sleep for ever: one of some 13,000 lives where threads
// had to wait for a core.
TEST(ForkJoin, EndsRightBehindItsLastRound) {
  for (int life = 0; life < 300; ++life) {
    std::atomic<int> parts{0};
    {
      ForkJoin pool(8);
      for (int round = 0; round <= life % 3; ++round) pool.Run(8, [&](size_t, size_t) { ++parts; });
    }
    ASSERT_EQ(parts, 8 * (1 + life % 3));
  }
}

TEST(ForkJoin, TheCallerTakesThePartsOfThreadsThatDoNotCome) {
  ForkJoin pool(3);
  std::atomic<int> done{0};
  std::atomic<int> blocked{0};
  pool.Run(3, [&](size_t, size_t) {
    // Of the first two threads to come one waits until both other parts are done.
    if (blocked.fetch_add(1) == 0) {
      while (done.load() < 2) std::this_thread::yield();
    }
    ++done;
  });
  EXPECT_EQ(done, 3);
}

}  // namespace
}  // namespace kcc
