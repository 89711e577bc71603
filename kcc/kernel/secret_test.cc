#include "kcc/kernel/secret.h"

#include <gtest/gtest.h>

#include <random>

namespace kcc {
namespace {

TEST(WithoutSecret, ReplacesEveryOccurrenceInOnePass) {
  EXPECT_EQ(WithoutSecret("wrong: Bearer secret-2, secret-2", "secret-2"),
            "wrong: Bearer ***, ***");
  EXPECT_EQ(WithoutSecret("nothing here", "secret"), "nothing here");
  EXPECT_EQ(WithoutSecret("", "secret"), "");
  EXPECT_EQ(WithoutSecret("kept", ""), "kept");
  EXPECT_EQ(WithoutSecret("aaa", "aa"), "***a");
}

// A replacement that holds the key was found again for ever.
TEST(WithoutSecret, AKeyOfAsterisksEndsToo) {
  EXPECT_EQ(WithoutSecret("Bearer ***", "***"), "Bearer ###");
  EXPECT_EQ(WithoutSecret("a*b**", "*"), "a###b######");
}

// Neither may a replacement and what stands beside it spell the key again.
TEST(WithoutSecret, TheResultNeverHoldsTheKey) {
  std::mt19937 random(7);
  const std::string_view alphabet = "a*#";
  const auto word = [&](size_t size) {
    std::string text;
    while (text.size() < size) text += alphabet[random() % alphabet.size()];
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::string key = word(1 + random() % 4);
    const std::string text = word(random() % 24);
    EXPECT_EQ(WithoutSecret(text, key).find(key), std::string::npos) << text << " / " << key;
  }
}

}  // namespace
}  // namespace kcc
