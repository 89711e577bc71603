#include "kcc/gateway/fingerprint_search.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace kcc {
namespace {

std::string FoundIn(const std::string& text, size_t piece) {
  FingerprintSearch search;
  std::string found;
  for (size_t at = 0; at < text.size(); at += piece) found = search.Feed(text.substr(at, piece));
  return found;
}

TEST(FingerprintSearch, FindsItHoweverTheBytesAreCut) {
  const std::string filler(3000, 'x');
  const std::string key = R"("system_fingerprint" : "build \"7\"")";
  const std::string texts[] = {
      "{" + key + ",\"text\":\"" + filler + "\"}", "{\"text\":\"" + filler + "\"," + key + "}",
      "{\"text\":\"" + filler + "\"," + key + ",\"x\":\"" + filler + "\"}"};
  for (const std::string& text : texts) {
    for (const size_t piece :
         std::initializer_list<size_t>{1, 2, 7, 100, 1023, 1024, 1025, 3000, 100'000}) {
      EXPECT_EQ(FoundIn(text, piece), "build \"7\"") << piece;
    }
  }
}

TEST(FingerprintSearch, TakesNoTextForIt) {
  const std::string text =
      R"({"text":"say \"system_fingerprint\":\"forged\" now","note":"system_fingerprint"})";
  for (const size_t piece : std::initializer_list<size_t>{1, 5, 50, 1000})
    EXPECT_EQ(FoundIn(text, piece), "") << piece;
}

TEST(FingerprintSearch, TheLastOneCountsAndAnEmptyOneDoesNot) {
  const std::string text = R"({"system_fingerprint":"a"} {"system_fingerprint":"b"} )"
                           R"({"system_fingerprint":""} {"system_fingerprint":null})";
  for (const size_t piece : std::initializer_list<size_t>{1, 30, 1000}) {
    EXPECT_NE(FoundIn(text, piece), "a") << piece;
  }
  EXPECT_EQ(FoundIn(text, 26), "b");
}

}  // namespace
}  // namespace kcc
