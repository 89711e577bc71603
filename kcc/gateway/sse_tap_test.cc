#include "kcc/gateway/sse_tap.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <vector>

namespace kcc {
namespace {

struct Heard {
  std::string bytes;
  std::vector<std::string> data;
  bool too_long = false;
  std::string rest;
};

Heard Read(const std::vector<std::string>& pieces, size_t limit = 1 << 20) {
  Heard heard;
  SseTap tap(limit);
  for (const std::string& piece : pieces) {
    const std::string copy = piece;
    std::string units;
    const auto complete = tap.Feed(copy, [&](const SseUnit& unit) {
      units += unit.raw;
      if (unit.event) heard.data.emplace_back(unit.data);
      heard.too_long = heard.too_long || unit.too_long;
      if (unit.simple) {
        EXPECT_GE(unit.data.data(), unit.raw.data());
        EXPECT_LE(unit.data.data() + unit.data.size(), unit.raw.data() + unit.raw.size());
      }
    });
    EXPECT_EQ(units, complete);
    heard.bytes += units;
  }
  heard.rest = tap.Rest().raw;
  return heard;
}

using Texts = std::vector<std::string>;

struct TapCase {
  const char* name;
  std::string stream;
  Texts data;
  std::string rest;
};

const std::vector<TapCase>& Cases() {
  static const std::vector<TapCase> cases = {
      {"LF", "data: a\n\ndata: b\n\n", {"a", "b"}, ""},
      {"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", {"a", "b"}, ""},
      {"CR", "data: a\r\rdata: b\r\r", {"a", "b"}, ""},
      {"no blank behind the colon", "data:a\n\n", {"a"}, ""},
      {"one blank is no data", "data:  a\n\n", {" a"}, ""},
      {"several lines", "data: a\ndata: b\n\n", {"a\nb"}, ""},
      {"other fields", "event: x\nid: 1\ndata: a\nretry: 5\n\n", {"a"}, ""},
      {"no data", "event: ping\n\ndata: a\n\n", {"a"}, ""},
      {"comments", ": hi\n\n: ho\ndata: a\n: in between\ndata: b\n\n", {"a\nb"}, ""},
      {"a byte order mark",
       "\xEF\xBB\xBF"
       "data: a\n\n",
       {"a"},
       ""},
      {"empty data", "data\n\ndata:\n\n", {"", ""}, ""},
      {"a longer field's name", "database: a\n\ndata: b\n\n", {"b"}, ""},
      {"blank lines", "\n\n\ndata: a\n\n\n\n", {"a"}, ""},
      {"an event without its end", "data: a\n\ndata: b\n", {"a"}, "data: b\n"},
      {"a line without its end", "data: a\n\ndat", {"a"}, "dat"},
      {"mixed ends", "data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", {"a", "b", "c"}, ""},
  };
  return cases;
}

TEST(SseTap, ReadsEventsOfEveryForm) {
  for (const TapCase& one : Cases()) {
    const Heard heard = Read({one.stream});
    EXPECT_EQ(heard.data, one.data) << one.name;
    EXPECT_EQ(heard.rest, one.rest) << one.name;
    EXPECT_EQ(heard.bytes + heard.rest, one.stream) << one.name;
  }
}

TEST(SseTap, ReadsThemByteByByte) {
  for (const TapCase& one : Cases()) {
    Texts pieces;
    for (const char c : one.stream) pieces.emplace_back(1, c);
    const Heard heard = Read(pieces);
    EXPECT_EQ(heard.data, one.data) << one.name;
    EXPECT_EQ(heard.bytes + heard.rest, one.stream) << one.name;
  }
}

Texts Cut(const std::string& stream) {
  Texts pieces;
  for (size_t at = 0; at < stream.size();) {
    const size_t length = *rc::gen::inRange<size_t>(1, 7);
    pieces.push_back(stream.substr(at, length));
    if (length == 3) pieces.emplace_back();  // nothing came
    at += length;
  }
  return pieces;
}

TEST(SseTap, AnyChunkingOfAnyStreamGivesTheSame) {
  EXPECT_TRUE(rc::check([] {
    const Texts parts = *rc::gen::container<Texts>(rc::gen::element<std::string>(
        "data: ", "data", "a", "\n", "\r", "\r\n", ":", "\n\n", "event: x", "{\"b\":1}", "[DONE]"));
    std::string stream;
    for (const std::string& part : parts) stream += part;
    const size_t limit = *rc::gen::element<size_t>(4, 16, 1 << 20);
    const Heard whole = Read({stream}, limit);
    const Heard cut = Read(Cut(stream), limit);
    RC_ASSERT(whole.bytes + whole.rest == stream);
    RC_ASSERT(cut.bytes + cut.rest == stream);
    RC_ASSERT(whole.data == cut.data);
  }));
}

TEST(SseTap, AnEventThatIsTooLongGoesOutInPartsAndTheNextIsRead) {
  const std::string stream = "data: " + std::string(100, 'x') + "\ndata: y\n\ndata: z\n\n";
  Texts pieces;
  for (size_t at = 0; at < stream.size(); at += 5) pieces.push_back(stream.substr(at, 5));
  for (const Texts& cut : {pieces, Texts{stream}}) {
    const Heard heard = Read(cut, 20);
    EXPECT_EQ(heard.bytes, stream);
    EXPECT_EQ(heard.data, Texts{"z"});
    EXPECT_TRUE(heard.too_long);
  }
}

TEST(SseTap, WhatWaitsIsBounded) {
  SseTap tap(64);
  size_t given = 0;
  for (int i = 0; i < 1000; ++i) given += tap.Feed("xxxxxxxxxx", [](const SseUnit&) {}).size();
  EXPECT_GE(given, 9900u);
  EXPECT_FALSE(tap.between_events());
}

}  // namespace
}  // namespace kcc
