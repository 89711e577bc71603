#include "kcc/statement/keyring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/base/json_writer.h"
#include "kcc/statement/statement_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

TEST(Keyring, HoldsWhoMaySignWhatAndWhen) {
  const Keyring keyring = TestKeyring(
      {TestKey(kEd25519Public, "ann", {"id: ann-2026", "notBefore: 2026-01-01T00:00:00Z"},
               "[evaluation]"),
       TestKey(kEcdsaPublic, "hsm",
               {"notAfter: \"2027-01-01T00:00:00Z\"", "revokedAt: 2026-06-01T00:00:00.5Z"})});
  ASSERT_EQ(keyring.keys.size(), 2u);
  const KeyringKey& ann = keyring.keys[0];
  EXPECT_EQ(ann.owner, "ann");
  EXPECT_TRUE(ann.Has(KeyRole::kEvaluation));
  EXPECT_FALSE(ann.Has(KeyRole::kPromotion));
  EXPECT_EQ(ann.not_before_ms, TestTime("2026-01-01T00:00:00Z"));
  EXPECT_FALSE(ann.not_after_ms);
  EXPECT_EQ(keyring.keys[1].revoked_at_ms, TestTime("2026-06-01T00:00:00.500Z"));
  EXPECT_EQ(keyring.Find("ann-2026"), &ann);
  EXPECT_EQ(keyring.Find(kEd25519Id), &ann);
  EXPECT_EQ(keyring.Find(""), nullptr);
  EXPECT_EQ(keyring.Find("ann"), nullptr);
}

TEST(Keyring, MayBeJson) {
  const std::string text =
      R"({"apiVersion": "kcc/v1", "kind": "Keyring", "keys": [{"owner": "ann", "roles": ["head"],
         "publicKey": )" +
      JsonQuote(kEd25519Public) + R"(, "notAfter": "2027-01-01T00:00:00Z"}]})";
  const auto keyring = ReadKeyring(text, "ring.json");
  ASSERT_TRUE(keyring) << keyring.error().Format();
  EXPECT_EQ(keyring->keys[0].key.id(), kEd25519Id);
}

TEST(Keyring, MistakesAreNamedWithTheirLine) {
  const std::string ann = TestKey(kEd25519Public, "ann");
  const auto with = [&](std::string_view line) {
    return TestKeyringText({TestKey(kEd25519Public, "ann", {std::string(line)})});
  };
  struct Case {
    std::string text;
    const char* words;
    int line;
  };
  const Case cases[] = {
      {"", "the document is empty", 0},
      {"7", "must be a mapping", 1},
      {"keys: [", "", 0},
      {"apiVersion: kcc/v1\nkind: Keyring\n", "lacks 'keys'", 1},
      {"apiVersion: kcc/v1\nkind: Keyring\nkeys: []\n", "at least one key", 3},
      {"apiVersion: kcc/v2\nkind: Keyring\nkeys: []\n", "must be kcc/v1", 1},
      {"apiVersion: kcc/v1\nkind: KernelContract\nkeys: []\n", "must be Keyring", 2},
      {"apiVersion: kcc/v1\nkind: Keyring\nkeys: [7]\n", "a key must be a mapping", 3},
      {with("revokdAt: 2026-01-01T00:00:00Z"), "did you mean 'revokedAt'?", 6},
      {with("colour: red"), "unknown key 'colour'", 6},
      {with("owner: bo"), "'owner' stands twice", 6},
      {with("notAfter: 2027"), "not a time such as", 6},
      {with("notAfter: 2027-01-01T00:00:00+01:00"), "not a time such as", 6},
      {with("notAfter:"), "must be a text", 0},
      {with("id: ''"), "must be a text", 6},
      {with("id: " + std::string(300, 'x')), "longer than 256", 6},
      {TestKeyringText(
           {TestKey(kEd25519Public, "ann",
                    {"notBefore: 2027-01-01T00:00:00Z", "notAfter: 2027-01-01T00:00:00Z"})}),
       "never valid", 7},
      {TestKeyringText({TestKey(kEd25519Public, "ann", {}, "[]")}), "one or more of", 5},
      {TestKeyringText({TestKey(kEd25519Public, "ann", {}, "evaluation")}), "one or more of", 5},
      {TestKeyringText({TestKey(kEd25519Public, "ann", {}, "[promotions]")}),
       "did you mean 'promotion'?", 5},
      {TestKeyringText({TestKey(kEd25519Private, "ann")}), "not a 'PUBLIC KEY'", 0},
      {TestKeyringText({TestKey("x\n", "ann")}), "holds no key in PEM", 0},
      {TestKeyringText({ann, ann}), "stands twice", 0},
      {TestKeyringText({TestKey(kEcdsaPublic, "bo", {"id: " + std::string(kEd25519Id)}), ann}),
       "is another key's id", 0},
      {TestKeyringText(
           {TestKey(kEcdsaPublic, "bo", {"id: x"}), TestKey(kEd25519Public, "ann", {"id: x"})}),
       "that of another key too", 0},
      {std::string(kKeyringBytesMax + 1, ' '), "larger than the limit", 0},
  };
  for (const Case& one : cases) {
    const auto keyring = ReadKeyring(one.text, "ring.yaml");
    ASSERT_FALSE(keyring) << one.text;
    EXPECT_EQ(keyring.error().code(), ErrorCode::kInvalid);
    EXPECT_EQ(keyring.error().place().file, "ring.yaml");
    EXPECT_THAT(keyring.error().message(), HasSubstr(one.words)) << one.text;
    if (one.line > 0) {
      EXPECT_EQ(keyring.error().place().line, one.line) << one.text;
    }
  }
}

}  // namespace
}  // namespace kcc
