#include "kcc/monitor/session_filter.h"

#include <gtest/gtest.h>

#include <string>

namespace kcc {
namespace {

uint64_t KeyOf(int i) { return HashKey(1, "session-" + std::to_string(i), "kernel"); }

TEST(SessionFilter, NeverMissesAKeyAndSeldomMatchesAnother) {
  SessionFilter filter(1 << 16);
  for (int i = 0; i < 4000; ++i) filter.Insert(KeyOf(i));
  int false_matches = 0;
  for (int i = 0; i < 4000; ++i) EXPECT_TRUE(filter.MayContain(KeyOf(i)));
  for (int i = 4000; i < 14000; ++i) false_matches += filter.MayContain(KeyOf(i)) ? 1 : 0;
  EXPECT_LT(false_matches, 100) << "1 - e^(-4 * 4000/65536) to the fourth is 0.2 %";
}

TEST(SessionFilter, AFullOneMatchesEverything) {
  SessionFilter filter(64);
  for (int i = 0; i < 1000; ++i) filter.Insert(KeyOf(i));
  for (int i = 1000; i < 2000; ++i) EXPECT_TRUE(filter.MayContain(KeyOf(i)));
  filter.Clear();
  EXPECT_FALSE(filter.MayContain(KeyOf(1)));
}

TEST(SessionFilter, TextsAreToldApart) {
  EXPECT_NE(HashKey(1, "ab", ""), HashKey(1, "a", "b"));
  EXPECT_NE(HashKey(1, "a", "b"), HashKey(1, "b", "a"));
  EXPECT_NE(HashKey(1, "a", "b"), HashKey(2, "a", "b"));
  EXPECT_NE(HashKey(1, std::string(8, '\0'), ""), HashKey(1, std::string(9, '\0'), ""));
}

TEST(SessionFilter, IsReadBackAsItWas) {
  SessionFilter filter(1 << 12);
  for (int i = 0; i < 50; ++i) filter.Insert(KeyOf(i));
  Archive writer = Archive::Writer();
  filter.Visit(writer);
  const std::string bytes = writer.Take();
  SessionFilter back(1 << 12);
  Archive reader = Archive::Reader(bytes);
  back.Visit(reader);
  EXPECT_TRUE(reader.ok() && reader.AtEnd());
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(back.MayContain(KeyOf(i)));
  SessionFilter smaller(64);
  Archive other = Archive::Reader(bytes);
  smaller.Visit(other);
  EXPECT_FALSE(other.ok()) << "words beyond its end";
}

}  // namespace
}  // namespace kcc
