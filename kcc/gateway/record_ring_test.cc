#include "kcc/gateway/record_ring.h"

#include <gtest/gtest.h>

#include <thread>

namespace kcc {
namespace {

ServedRecord Numbered(size_t number, size_t kernel = 0) {
  ServedRecord record;
  record.kernel = kernel;
  record.id = std::to_string(number);
  return record;
}

TEST(RecordRing, GivesBackInOrderAndCountsWhatDidNotFit) {
  RecordRing ring(3);  // four
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(ring.Put(Numbered(i)));
  EXPECT_FALSE(ring.Put(Numbered(4, 5)));
  EXPECT_FALSE(ring.Put(Numbered(5, 5)));
  EXPECT_FALSE(ring.Put(Numbered(6, 0)));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(ring.Take()->id, std::to_string(i));
  EXPECT_FALSE(ring.Take());
  const std::vector<uint64_t> dropped = ring.TakeDropped();
  EXPECT_EQ(dropped[5], 2u);
  EXPECT_EQ(dropped[0], 1u);
  EXPECT_EQ(ring.TakeDropped()[5], 0u) << "told once";
  EXPECT_TRUE(ring.Put(Numbered(7)));
  EXPECT_EQ(ring.Take()->id, "7");
}

TEST(RecordRing, KeepsNoPoolOfARecordThatWasTaken) {
  RecordRing ring(4);
  auto pool = std::make_shared<const GatewayPool>();
  ServedRecord record = Numbered(1);
  record.pool = pool;
  ring.Put(std::move(record));
  ring.Take();
  EXPECT_EQ(pool.use_count(), 1);
}

TEST(RecordRing, OfTwoThreadsEveryRecordIsTakenOnceOrCountedAsDropped) {
  constexpr size_t kRecords = 20000;
  RecordRing ring(16);
  size_t refused = 0;
  std::thread putter([&] {
    for (size_t i = 0; i < kRecords; ++i) refused += ring.Put(Numbered(i)) ? 0 : 1;
    while (!ring.Put(Numbered(kRecords))) {
    }
  });
  size_t taken = 0, last = 0;
  bool ordered = true;
  while (last != kRecords) {
    if (const auto record = ring.Take()) {
      const size_t number = std::stoul(record->id);
      ordered = ordered && (taken == 0 || number > last);
      last = number;
      ++taken;
    }
  }
  putter.join();
  EXPECT_TRUE(ordered);
  EXPECT_EQ(taken - 1 + refused, kRecords);
  EXPECT_GE(ring.TakeDropped()[0], refused);
}

}  // namespace
}  // namespace kcc
