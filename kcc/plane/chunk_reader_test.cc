#include "kcc/plane/chunk_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kcc {
namespace {

using State = ChunkReader::State;

struct Reading {
  State state;
  std::string body;
  size_t taken = 0;

  bool operator==(const Reading&) const = default;
};

Reading ReadPieces(const std::string& bytes, size_t piece, size_t limit = 1000) {
  ChunkReader reader(limit);
  Reading reading{};
  while (reading.taken < bytes.size() && reader.state() == State::kMore) {
    reading.taken +=
        reader.Read(std::string_view(bytes).substr(reading.taken, piece), &reading.body);
  }
  reading.state = reader.state();
  return reading;
}

struct Case {
  const char* name;
  std::string bytes;
  State state;
  std::string body = "";
};

const Case kCases[] = {
    {"two chunks", "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", State::kDone, "hello world"},
    {"no chunk", "0\r\n\r\n", State::kDone},
    {"sizes in both cases, with zeros before", "00A\r\n0123456789\r\n0a\r\n0123456789\r\n0\r\n\r\n",
     State::kDone, "01234567890123456789"},
    {"an extension is dropped", "1;a=b;c=\"d\"\r\nx\r\n0;e\r\n\r\n", State::kDone, "x"},
    {"trailers are dropped", "1\r\nx\r\n0\r\nAuthorization: k\r\nB: c\r\n\r\n", State::kDone, "x"},
    {"data may be anything", std::string("4\r\n\r\n\0\n\r\n0\r\n\r\n", 14), State::kDone,
     std::string("\r\n\0\n", 4)},
    {"it has not ended", "5\r\nhello\r\n", State::kMore, "hello"},
    {"no size", "\r\n", State::kBad},
    {"a size with a sign", "+1\r\nx\r\n", State::kBad},
    {"a size with 0x", "0x1\r\nx\r\n", State::kBad},
    {"a blank before the size", " 1\r\nx\r\n", State::kBad},
    {"a blank after the size", "1 \r\nx\r\n", State::kBad},
    {"a size beyond 64 bits", "10000000000000001\r\nx\r\n", State::kBad},
    {"a bare LF after the size", "1\nx\r\n", State::kBad},
    {"a bare CR after the size", "1\rx\r\n", State::kBad},
    {"a bare LF in an extension", "1;a\nx\r\n", State::kBad},
    {"a NUL in an extension", std::string("1;\0\r\nx\r\n", 8), State::kBad},
    {"a bare LF after the data", "1\r\nx\n0\r\n\r\n", State::kBad, "x"},
    {"more data than the size", "1\r\nxy\r\n0\r\n\r\n", State::kBad, "x"},
    {"a bare LF in a trailer", "0\r\na: b\n\r\n", State::kBad},
    {"an extension without an end", "1;" + std::string(5000, 'a'), State::kBad},
    {"trailers without an end", "0\r\n" + std::string(5000, 'a'), State::kBad},
    {"a chunk beyond the limit", "3e9\r\n", State::kTooLarge},
};

TEST(ChunkReader, ABodyIsTheSameInWhateverPiecesItComes) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const Reading whole = ReadPieces(one.bytes, one.bytes.size());
    EXPECT_EQ(whole.state, one.state);
    EXPECT_EQ(whole.body, one.body);
    for (const size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{7}}) {
      EXPECT_EQ(ReadPieces(one.bytes, piece), whole) << piece;
    }
  }
}

TEST(ChunkReader, NothingBeyondTheBodyIsTaken) {
  const std::string body = "1\r\nx\r\n0\r\n\r\n";
  EXPECT_EQ(ReadPieces(body + "GET / HTTP/1.1\r\n", 1000).taken, body.size());
}

TEST(ChunkReader, ManySmallExtensionsAreAsManyAsALongOne) {
  std::string body;
  for (int i = 0; i < 500; ++i) body += "1;abcdefghi\r\nx\r\n";
  EXPECT_EQ(ReadPieces(body, body.size()).state, State::kBad);
}

TEST(ChunkReader, TheLimitIsOfAllChunksTogether) {
  const std::string two = "5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n";
  EXPECT_EQ(ReadPieces(two, 3, 10).state, State::kDone);
  EXPECT_EQ(ReadPieces(two, 3, 9).state, State::kTooLarge);
}

}  // namespace
}  // namespace kcc
