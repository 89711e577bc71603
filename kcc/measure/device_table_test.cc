#include "kcc/measure/device_table.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

std::vector<std::pair<int64_t, int64_t>> Joined(std::vector<RowRange> ranges, int64_t gap_max) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const RowRange& range : JoinRanges(std::move(ranges), gap_max)) {
    pairs.emplace_back(range.first, range.count);
  }
  return pairs;
}

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

TEST(JoinRanges, SmallGapsAreMeasuredTooAndLargeOnesLeftOut) {
  EXPECT_EQ(Joined({{0, 5}, {9, 2}}, 4), (Pairs{{0, 11}}));
  EXPECT_EQ(Joined({{0, 5}, {10, 2}}, 4), (Pairs{{0, 5}, {10, 2}}));
}

TEST(JoinRanges, OrderOverlapsAndEmptyRangesDoNotMatter) {
  EXPECT_EQ(Joined({{20, 3}, {0, 4}, {2, 1}, {2, 4}, {100, 0}}, 0), (Pairs{{0, 6}, {20, 3}}));
  EXPECT_EQ(Joined({}, 8), Pairs{});
}

}  // namespace
}  // namespace kcc
