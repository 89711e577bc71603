#include "kcc/plane/http_text.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

TEST(HttpText, NoValueEndsItsLine) {
  std::string head;
  AppendField(&head, "x-a", "b c");
  AppendField(&head, "x-b", "\xc3\xa4\t");
  EXPECT_EQ(head, "x-a: b c\r\nx-b: \xc3\xa4\t\r\n");
  const std::string before = head;
  AppendField(&head, "x-a", "b\r\nx-c: d");
  AppendField(&head, "x-a", "b\nx-c: d");
  AppendField(&head, "x-a", std::string_view("\0", 1));
  AppendField(&head, "x-a: y\r\nx-c", "d");
  AppendField(&head, "", "d");
  AppendField(&head, "x a", "d");
  EXPECT_EQ(head, before);
}

TEST(HttpText, FieldsOfOneConnectionAreKnownWhateverTheirCase) {
  for (const char* name : {"Connection", "TRANSFER-ENCODING", "content-length", "Host", "te",
                           "Upgrade", "Keep-Alive", "Proxy-Authorization", "Expect", "Trailer"}) {
    EXPECT_TRUE(IsConnectionField(name)) << name;
  }
  EXPECT_FALSE(IsConnectionField("content-type"));
  EXPECT_FALSE(IsConnectionField("x-connection"));
}

TEST(HttpText, AListIsTakenItemByItem) {
  std::string_view list = " a ,b,, c";
  EXPECT_EQ(NextListItem(&list), "a");
  EXPECT_EQ(NextListItem(&list), "b");
  EXPECT_EQ(NextListItem(&list), "");
  EXPECT_EQ(NextListItem(&list), "c");
  EXPECT_TRUE(list.empty());
}

}  // namespace
}  // namespace kcc
