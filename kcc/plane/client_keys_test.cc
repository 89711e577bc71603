#include "kcc/plane/client_keys.h"

#include <gtest/gtest.h>

#include "kcc/base/sha256.h"

namespace kcc {
namespace {

TEST(ClientKeys, AKeyIsKnownByItsHash) {
  std::string upper = Sha256Of("two").substr(7);
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  const auto keys = ClientKeys::Of(std::vector<std::string>{Sha256Of("one"), upper});
  ASSERT_TRUE(keys) << keys.error().message();
  EXPECT_TRUE(keys->Knows("Bearer one"));
  EXPECT_TRUE(keys->Knows("bearer   two "));
  EXPECT_FALSE(keys->Knows("Bearer three"));
  EXPECT_FALSE(keys->Knows("Bearer " + Sha256Of("one"))) << "the hash is no key";
  EXPECT_FALSE(keys->Knows("Basic one"));
  EXPECT_FALSE(keys->Knows("Bearer "));
  EXPECT_FALSE(keys->Knows(""));
}

TEST(ClientKeys, WithoutHashesNoKeyIsAskedFor) {
  const auto keys = ClientKeys::Of({});
  ASSERT_TRUE(keys);
  EXPECT_TRUE(keys->any());
  EXPECT_TRUE(keys->Knows(""));
}

TEST(ClientKeys, AHashThatIsNoneIsAnError) {
  for (const char* text : {"", "abc", "sha256:12"}) {
    EXPECT_FALSE(ClientKeys::Of(std::vector<std::string>{text})) << text;
  }
}

TEST(EqualInConstantTime, IsEquality) {
  EXPECT_TRUE(EqualInConstantTime("", ""));
  EXPECT_TRUE(EqualInConstantTime("abc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abd"));
  EXPECT_FALSE(EqualInConstantTime("abc", "ab"));
}

}  // namespace
}  // namespace kcc
