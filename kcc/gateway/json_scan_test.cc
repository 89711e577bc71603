#include "kcc/gateway/json_scan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace kcc {
namespace {

TEST(JsonScan, TakesWhatTheGrammarTakes) {
  for (const std::string text :
       {"{}", "[]", "0", "-0", "1e5", "-1.25E-3", "\"\"", "true", "false", "null", " [1, 2 ] ",
        R"({"a":{"b":[1,{"c":"d"}]},"e":null})", R"("\u00e9\n\"\\\/")",
        "\"\xC3\xA9\xF0\x9F\x98\x80\"", R"("\ud800")", "\"12345678\\\"12345678\"", "[[[[]]]]",
        "{\"a\":[],\"b\":{}}"}) {
    EXPECT_TRUE(IsWholeJson(text)) << text;
  }
}

// A string is gone through by eight bytes at a time: each place of what is special counts.
TEST(JsonScan, FindsWhatEndsAStringAtEveryPlace) {
  for (size_t before = 0; before < 20; ++before) {
    for (size_t after = 0; after < 12; ++after) {
      const std::string left(before, '!'), right(after, '~');
      for (const std::string plain : {"", "\x7F", "\xC3\xA9", "\\\"", "\\\\"}) {
        const std::string text = '"' + left + plain + right + '"';
        EXPECT_TRUE(IsWholeJson(text)) << text;
        EXPECT_TRUE(IsWholeJson('[' + text + ',' + text + ']')) << text;
        EXPECT_FALSE(IsWholeJson(text.substr(0, text.size() - 1))) << text;
      }
      for (const std::string bad : {"\x1F", "\n", "\x80", "\xC3", "\\x", "\""}) {
        EXPECT_FALSE(IsWholeJson('"' + left + bad + right + '"')) << left << bad << right;
      }
    }
  }
}

TEST(JsonScan, RefusesWhatItDoesNot) {
  for (const std::string text : {"",
                                 " ",
                                 "{",
                                 "}",
                                 "[1,]",
                                 "{,}",
                                 "{\"a\"}",
                                 "{\"a\":}",
                                 "{\"a\":1,}",
                                 "{a:1}",
                                 "01",
                                 "+1",
                                 "1.",
                                 ".5",
                                 "1e",
                                 "tru",
                                 "nulL",
                                 "\"",
                                 "\"a",
                                 "\"\t\"",
                                 R"("\x")",
                                 R"("\u12g4")",
                                 "[1 2]",
                                 "{\"a\":1 \"b\":2}",
                                 "[1]]",
                                 "1 2",
                                 "'a'",
                                 "NaN",
                                 "Infinity",
                                 "\"\xC0\x80\"",
                                 "\"\xED\xA0\x80\"",
                                 "\"\xF5\x80\x80\x80\"",
                                 "\"\xC3\"",
                                 "\"1234567\x01\"",
                                 "{\"a\" 1}",
                                 "[}",
                                 "{]",
                                 "-",
                                 "\xEF\xBB\xBF{}"}) {
    EXPECT_FALSE(IsWholeJson(text)) << text;
  }
}

TEST(JsonScan, NestsToItsLimitAndNoFurther) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(IsWholeJson(nested(kJsonDepthMax)));
  EXPECT_FALSE(IsWholeJson(nested(kJsonDepthMax + 1)));
  EXPECT_FALSE(IsWholeJson(std::string(1 << 20, '[')));
}

TEST(JsonScan, SaysWhereMembersAre) {
  const std::string text = R"( { "a" : [1, "x"] , "b":"y" } )";
  JsonParts parts(text);
  JsonPart part;
  ASSERT_TRUE(parts.Next(&part));
  EXPECT_EQ(part.key, "a");
  EXPECT_EQ(part.value, "[1, \"x\"]");
  EXPECT_EQ(part.begin - text.data(), 3);
  ASSERT_TRUE(parts.Next(&part));
  EXPECT_EQ(part.value, "\"y\"");
  EXPECT_FALSE(parts.Next(&part));
  EXPECT_TRUE(parts.good());
  EXPECT_EQ(*parts.close(), '}');
  EXPECT_EQ(JsonMemberOf(text, "b"), "\"y\"");
  EXPECT_FALSE(JsonMemberOf(text, "c"));
}

TEST(JsonScan, BadPartsEndTheWalk) {
  for (const std::string text : {"{\"a\":1", "{\"a\":1,}", "[1,,2]", "12", "", "{\"a\":1]"}) {
    JsonParts parts(text);
    JsonPart part;
    while (parts.Next(&part)) {
    }
    EXPECT_FALSE(parts.good()) << text;
  }
}

TEST(JsonScan, ReadsWhatStringsSay) {
  EXPECT_EQ(JsonTextOf(R"("a\u00e9\ud83d\ude00\n\"")"), "a\xC3\xA9\xF0\x9F\x98\x80\n\"");
  EXPECT_EQ(JsonTextOf(R"("\ud83d")"), "\xEF\xBF\xBD");
  EXPECT_EQ(JsonTextOf(R"("\ude00x")"), "\xEF\xBF\xBDx");
  EXPECT_EQ(JsonTextOf(R"("\ud83dA")"),
            "\xEF\xBF\xBD"
            "A");
  EXPECT_FALSE(JsonTextOf("1"));
  EXPECT_TRUE(KeyIs("mod\\u0065l", "model"));
  EXPECT_FALSE(KeyIs("Model", "model"));
  EXPECT_FALSE(KeyIs("models", "model"));
  EXPECT_FALSE(KeyIs("mod\\u0065ls", "model"));
  EXPECT_FALSE(KeyIs("mode", "model"));
  EXPECT_EQ(JsonIntegerOf("-12"), -12);
  EXPECT_FALSE(JsonIntegerOf("1.5"));
  EXPECT_FALSE(JsonNumberOf("\"1\""));
  EXPECT_EQ(JsonNumberOf("1e3"), 1000);
}

// A drawn text is quoted by this and read back.
TEST(JsonScan, StringsOfAnyBytesAreFoundToTheirEnd) {
  EXPECT_TRUE(rc::check([] {
    const auto words = *rc::gen::container<std::vector<uint32_t>>(
        rc::gen::element<uint32_t>('a', '"', '\\', 0x1F, 0xE9, 0x20AC, 0x1F600, ' ', '{'));
    std::string text = "\"";
    for (const uint32_t word : words) {
      char escape[16];
      if (word < 0x80 && word >= 0x20 && word != '"' && word != '\\') {
        text += static_cast<char>(word);
      } else if (word < 0x10000) {
        std::snprintf(escape, sizeof escape, "\\u%04x", word);
        text += escape;
      } else {
        text += "\xF0\x9F\x98\x80";
      }
    }
    text += '"';
    RC_ASSERT(IsWholeJson(text));
    RC_ASSERT(!IsWholeJson(text.substr(0, text.size() - 1)));
    RC_ASSERT(JsonTextOf(text).has_value());
  }));
}

}  // namespace
}  // namespace kcc
