#include "kcc/measure/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace kcc {
namespace {

TEST(ParallelFor, RunsEveryPartOnceAndTheFirstOnTheCallersThread) {
  std::vector<std::atomic<int>> ran(17);
  std::thread::id first;
  ParallelFor(ran.size(), [&](size_t part) {
    ++ran[part];
    if (part == 0) first = std::this_thread::get_id();
  });
  for (const auto& count : ran) EXPECT_EQ(count, 1);
  EXPECT_EQ(first, std::this_thread::get_id());
  ParallelFor(0, [](size_t) { FAIL(); });
}

TEST(ParallelFor, ThrowsAgainWhatTheLowestPartThrewAfterAllHaveEnded) {
  std::atomic<int> ended = 0;
  const auto run = [&] {
    ParallelFor(8, [&](size_t part) {
      ++ended;
      if (part == 3 || part == 5) throw std::runtime_error("part " + std::to_string(part));
    });
  };
  try {
    run();
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "part 3");
  }
  EXPECT_EQ(ended, 8);
}

}  // namespace
}  // namespace kcc
