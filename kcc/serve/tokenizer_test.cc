#include "kcc/serve/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kcc/base/strings.h"
#include "kcc/serve/serve_test_data.h"

namespace kcc {
namespace {

using testing::kVocab;

ByteTokenizer Small() { return *testing::SmallServedModel().tokenizer; }

TEST(ByteTokenizer, BytesAreTheirOwnIdsAndAddedTokensStandForThemselves) {
  const ByteTokenizer tokenizer = Small();
  EXPECT_EQ(tokenizer.Encode("<s><user>6*8<assistant>"),
            (std::vector<int32_t>{256, 258, '6', '*', '8', 259}));
  EXPECT_EQ(tokenizer.Encode("<s"), (std::vector<int32_t>{'<', 's'}));
  EXPECT_EQ(tokenizer.Encode("\xC3\xA9"), (std::vector<int32_t>{0xC3, 0xA9}));
  EXPECT_TRUE(tokenizer.Encode("").empty());
  EXPECT_EQ(tokenizer.AddedToken("</s>"), 257);
  EXPECT_EQ(tokenizer.AddedToken("<pad>"), -1);
}

TEST(ByteTokenizer, DecodingTakesEncodingBack) {
  const ByteTokenizer tokenizer = Small();
  rc::check([&](const std::string& text) {
    const std::vector<int32_t> ids = tokenizer.Encode(text);
    std::string bytes;
    for (const int32_t id : ids) bytes += tokenizer.Bytes(id, false);
    RC_ASSERT(bytes == text);
  });
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{256, 'a', 257}, true), "a");
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{256, 'a', 257}, false), "<s>a</s>");
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{0xC3, 'a', 0xC3, 0xA9}, true),
            "\xEF\xBF\xBD"
            "a\xC3\xA9");
  EXPECT_EQ(tokenizer.Bytes(kVocab + 5, false), "");
}

TEST(ByteTokenizer, WhatItDoesNotComputeIsRefused) {
  const auto message = [](std::string json) {
    const auto made = ByteTokenizer::Parse(json, kVocab, "t.json");
    return made.has_value() ? std::string() : made.error().Format();
  };
  const std::string good = testing::TokenizerJson();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_EQ(message(good), "");
  EXPECT_NE(message(with("\"merges\":[]", "\"merges\":[\"a b\"]")).find("has merges"),
            std::string::npos);
  EXPECT_NE(message(with("{\"added", "{\"normalizer\":{},\"added")).find("normalizer"),
            std::string::npos);
  EXPECT_NE(message(with("\"<0x41>\":65,", "")).find("some bytes"), std::string::npos);
  EXPECT_NE(message(with("\"<0x41>\":65,", "\"<0x41>\":6500,")).find("264 tokens"),
            std::string::npos);
  EXPECT_NE(message("[]").find("t.json: is not a JSON object"), std::string::npos);
}

TEST(Utf8Stream, CharactersComeOutWholeInWhateverPiecesTheyArrive) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
  rc::check([&] {
    Utf8Stream stream;
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const auto size = *rc::gen::inRange<size_t>(1, 4);
      const std::string piece = stream.Push(text.substr(at, size));
      size_t bad = 0;
      RC_ASSERT(IsUtf8(piece, &bad));
      out += piece;
      at += size;
    }
    RC_ASSERT(out + stream.Finish() == text);
  });
}

TEST(Utf8Stream, BrokenBytesBecomeWhatTheJsonWriterMakesOfThem) {
  rc::check([](const std::string& bytes) {
    Utf8Stream stream;
    std::string out;
    for (const char byte : bytes) out += stream.Push(std::string_view(&byte, 1));
    out += stream.Finish();
    size_t bad = 0;
    RC_ASSERT(IsUtf8(out, &bad));
    RC_ASSERT(CountCharacters(out) <= bytes.size());
  });
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
  EXPECT_EQ(stream.Push("\xF0\x9F"), "");
  EXPECT_EQ(stream.Finish(), "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace kcc
