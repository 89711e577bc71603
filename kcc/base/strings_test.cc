#include "kcc/base/strings.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace kcc {
namespace {

using std::string_view_literals::operator""sv;

TEST(ShortestNumber, WritesWhatPeopleWrite) {
  EXPECT_EQ(ShortestNumber(0.05), "0.05");
  EXPECT_EQ(ShortestNumber(1e-13), "1e-13");
  EXPECT_EQ(ShortestNumber(400), "400");
  EXPECT_EQ(ShortestNumber(-3), "-3");
  EXPECT_EQ(ShortestNumber(-std::nan("")), "nan");
  EXPECT_EQ(ShortestNumber(-0.0), "0");
  EXPECT_EQ(ShortestNumber(1000000), "1000000");
  EXPECT_EQ(ShortestNumber(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(ShortestNumber(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(ShortestNumber(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(ShortestNumber(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(ShortestNumber, ReadsBackAsTheSameDouble) {
  ASSERT_TRUE(rc::check([](uint64_t bits) {
    const auto value = std::bit_cast<double>(bits);
    RC_PRE(std::isfinite(value));
    const auto back = ParseNumber(ShortestNumber(value));
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == value);
  }));
}

TEST(ReadableNumber, KeepsFourDigits) {
  EXPECT_EQ(ReadableNumber(0.0123456), "0.01235");
  EXPECT_EQ(ReadableNumber(1.2e-13), "1.2e-13");
  EXPECT_EQ(ReadableNumber(0.00001234567), "1.235e-05");
  EXPECT_EQ(ReadableNumber(400), "400");
  EXPECT_EQ(ReadableNumber(123456789), "123456789");
  EXPECT_EQ(ReadableNumber(99.99999), "100");
  EXPECT_EQ(ReadableNumber(-0.5), "-0.5");
  EXPECT_EQ(ReadableNumber(std::numeric_limits<double>::infinity()), "inf");
}

TEST(ParseNumber, RefusesWhatIsNotAPlainDecimal) {
  for (const auto text : {"", "-", "+", "abc", "1x", "1 ", " 1", "0x10", "inf", "nan", "1e", "--1",
                          "1e999", "+-1", "1,5"}) {
    EXPECT_FALSE(ParseNumber(text).has_value()) << text;
  }
  EXPECT_EQ(ParseNumber("+.5"), 0.5);
  EXPECT_EQ(ParseNumber("-2e-3"), -0.002);
}

TEST(NearestWord, FindsSlipsOfTheKeyboard) {
  constexpr std::array kWords = {"p99_logit_linf"sv, "p99_logit_l2"sv, "mean_kl"sv, "all"sv};
  EXPECT_EQ(NearestWord("p99_logit_linff", kWords), "p99_logit_linf");
  EXPECT_EQ(NearestWord("maen_kl", kWords), "mean_kl");  // a transposition is one edit
  EXPECT_EQ(NearestWord("al", kWords), "all");
  EXPECT_FALSE(NearestWord("throughput", kWords).has_value());
  EXPECT_FALSE(NearestWord("mean_kl", std::array{"mean_kl"sv}).has_value());
  EXPECT_FALSE(NearestWord(std::string(100, 'x'), kWords).has_value());
}

TEST(JoinWords, ReadsAsASentence) {
  EXPECT_EQ(JoinWords({}), "");
  EXPECT_EQ(JoinWords(std::array{"a"sv}), "a");
  EXPECT_EQ(JoinWords(std::array{"a"sv, "b"sv, "c"sv}), "a, b and c");
  EXPECT_EQ(JoinWords(std::array{"a"sv, "b"sv}, "or"), "a or b");
}

TEST(IsUtf8, AcceptsTextAndNamesTheFirstBadByte) {
  size_t bad = 99;
  EXPECT_TRUE(IsUtf8("plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", &bad));
  struct Case {
    std::string_view bytes;
    size_t bad;
  };
  for (const auto& [bytes, expected] :
       {Case{"ab\xFF", 2}, Case{"\xC3", 0}, Case{"a\xC0\x80", 1}, Case{"\xED\xA0\x80", 0},
        Case{"\xF4\x90\x80\x80", 0}, Case{"x\x80", 1}}) {
    EXPECT_FALSE(IsUtf8(bytes, &bad));
    EXPECT_EQ(bad, expected);
  }
}

}  // namespace
}  // namespace kcc
