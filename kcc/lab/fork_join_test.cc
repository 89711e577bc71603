#include "kcc/lab/fork_join.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <string>

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

}  // namespace
}  // namespace kcc
