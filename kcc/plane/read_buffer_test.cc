#include "kcc/plane/read_buffer.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace kcc {
namespace {

void Read(ReadBuffer* buffer, const std::string& bytes) {
  const std::span<char> room = buffer->Prepare(bytes.size());
  std::memcpy(room.data(), bytes.data(), bytes.size());
  buffer->Commit(bytes.size());
}

TEST(ReadBuffer, BytesThatAreTakenWhileAReadIsUnderWayMoveNothing) {
  ReadBuffer buffer;
  Read(&buffer, "first request");
  const std::span<char> room = buffer.Prepare(100);  // the next read waits for its bytes
  buffer.Take(6);
  EXPECT_EQ(buffer.bytes(), "request");
  buffer.TakeAll();
  EXPECT_EQ(buffer.size(), 0u);
  std::memcpy(room.data(), "second", 6);
  buffer.Commit(6);
  EXPECT_EQ(buffer.bytes(), "second");
}

TEST(ReadBuffer, AnEmptyOneGivesLargeMemoryBack) {
  ReadBuffer buffer;
  Read(&buffer, std::string(1 << 20, 'x'));
  buffer.TakeAll();
  const char* const large = buffer.Prepare(100 << 10).data();
  EXPECT_NE(buffer.Prepare(100).data(), large);
}

RC_GTEST_PROP(ReadBuffer, WhatWasReadIsTakenInItsOrder, ()) {
  ReadBuffer buffer;
  std::string wanted;
  std::string got;
  const int turns = *rc::gen::inRange(1, 60);
  for (int i = 0; i < turns; ++i) {
    const auto count = *rc::gen::inRange<size_t>(0, 5000);
    std::string piece(count, static_cast<char>('a' + i % 26));
    wanted += piece;
    if (count > 0) Read(&buffer, piece);
    const auto take = *rc::gen::inRange<size_t>(0, 8000);
    got += buffer.bytes().substr(0, take);
    buffer.Take(take);
  }
  RC_ASSERT(got + std::string(buffer.bytes()) == wanted);
}

}  // namespace
}  // namespace kcc
