// Bytes changed in an envelope or a keyring: no mutation of what is signed, of a signature, of a
// key id or of a date is accepted that should not be. What may change is said and counted: blanks
// and unsigned metadata of the envelope, and a keyring that still trusts the key at that time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "kcc/statement/dsse.h"
#include "kcc/statement/statement_test_data.h"
#include "kcc/statement/verify.h"

namespace kcc {
namespace {

constexpr int kMutations = 2000;  // of each kind

// Where a mutation is made: the text between two marks of the document, or all of it.
struct Region {
  const char* name;
  size_t begin;
  size_t end;
};

Region Between(const char* name, const std::string& text, std::string_view mark) {
  const size_t begin = text.find(mark) + mark.size();
  return {name, begin, text.find('"', begin)};
}

std::string Mutated(std::string text, const Region& region, std::mt19937_64* random) {
  const auto pick = [&](size_t below) { return static_cast<size_t>((*random)() % below); };
  const size_t at = region.begin + pick(region.end - region.begin);
  switch (pick(4)) {
    case 0:  // one bit
      text[at] = static_cast<char>(text[at] ^ (1 << pick(8)));
      break;
    case 1:  // another byte
      text[at] = static_cast<char>(pick(256));
      break;
    case 2:  // a byte less
      text.erase(at, 1);
      break;
    default:  // two bytes exchanged
      std::swap(text[at], text[region.begin + pick(region.end - region.begin)]);
  }
  return text;
}

TEST(Mutation, NoChangedEnvelopeIsAccepted) {
  const Keyring keyring =
      TestKeyring({TestKey(kEd25519Public, "ann"), TestKey(kEcdsaPublic, "hsm")});
  const VerifyOptions both{.threshold = 2};
  const std::string envelope = TestEnvelope(
      *EvaluationStatement(TestEvaluation(ConvergentSample())), {kEd25519Private, kEcdsaPrivate});
  ASSERT_TRUE(Verify(envelope, keyring, both).verified());
  const DsseEnvelope original = *ReadEnvelope(envelope);
  const Region regions[] = {
      Between("payload", envelope, R"("payload": ")"),
      Between("payload type", envelope, R"("payloadType": ")"),
      Between("signature", envelope, R"("sig": ")"),
      Between("key id", envelope, R"("keyid": ")"),
      {"anywhere", 0, envelope.size()},
  };
  std::mt19937_64 random(20261118);
  for (const Region& region : regions) {
    int same_meaning = 0;
    int accepted = 0;
    for (int i = 0; i < kMutations; ++i) {
      const std::string text = Mutated(envelope, region, &random);
      if (text == envelope || !Verify(text, keyring, both).verified()) continue;
      ++accepted;
      // Blanks, an unknown key, another spelling of the same base64 or escapes: what is signed, who
      // signed it and how must be what they were.
      const DsseEnvelope read = *ReadEnvelope(text);
      ASSERT_EQ(read.payload, original.payload) << region.name << " mutation " << i;
      ASSERT_EQ(read.payload_type, original.payload_type);
      ASSERT_EQ(read.signatures.size(), original.signatures.size());
      for (size_t k = 0; k < read.signatures.size(); ++k) {
        ASSERT_EQ(read.signatures[k].signature, original.signatures[k].signature);
        ASSERT_EQ(read.signatures[k].key_id, original.signatures[k].key_id);
      }
      ++same_meaning;
    }
    EXPECT_EQ(accepted, same_meaning);
    if (std::string_view(region.name) != "anywhere") {
      EXPECT_EQ(accepted, 0) << region.name;
    }
    std::printf("%s: %d mutations, %d accepted, all with the same meaning\n", region.name,
                kMutations, accepted);
  }
}

// The payload itself, signed by nobody else: every bit of its first and last bytes, and random
// ones.
TEST(Mutation, NoChangedPayloadIsAccepted) {
  const Keyring keyring = TestKeyring({TestKey(kEd25519Public, "ann")});
  const std::string envelope =
      TestEnvelope(*EvaluationStatement(TestEvaluation(SampleReport())), {kEd25519Private});
  const DsseEnvelope original = *ReadEnvelope(envelope);
  std::mt19937_64 random(20261119);
  for (int i = 0; i < kMutations; ++i) {
    DsseEnvelope changed = original;
    const size_t at = random() % changed.payload.size();
    changed.payload[at] = static_cast<char>(changed.payload[at] ^ (1 << random() % 8));
    EXPECT_FALSE(Verify(EnvelopeJson(changed), keyring, {}).verified()) << at;
  }
}

// Dates: the oracle is the comparison of texts, which order as times do in this form.
TEST(Mutation, AChangedDateIsObeyed) {
  const std::string envelope =
      TestEnvelope(*EvaluationStatement(TestEvaluation(SampleReport())), {kEd25519Private});
  const std::string text =
      TestKeyringText({TestKey(kEd25519Public, "ann",
                               {"notBefore: 2026-01-01T00:00:00Z", "notAfter: 2027-01-01T00:00:00Z",
                                "revokedAt: 2026-12-01T00:00:00Z"})});
  std::mt19937_64 random(20261120);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    std::string changed = text;
    std::map<std::string, std::string> dates;
    for (const char* key : {"notBefore: ", "notAfter: ", "revokedAt: "}) {
      const size_t at = changed.find(key) + std::string_view(key).size();
      const size_t digits[] = {2, 3, 5, 6, 8, 9, 11, 12};
      for (int k = 0; k < 2; ++k) {
        changed[at + digits[random() % 8]] = static_cast<char>('0' + random() % 10);
      }
      dates[key] = changed.substr(at, 20);
    }
    const auto keyring = ReadKeyring(changed, "ring.yaml");
    const bool times = std::all_of(dates.begin(), dates.end(), [](const auto& date) {
      return ParseTimestamp(date.second).has_value();
    });
    const bool valid = times && dates["notBefore: "] < dates["notAfter: "] &&
                       dates["notBefore: "] <= kTestTime && kTestTime < dates["notAfter: "] &&
                       kTestTime < dates["revokedAt: "];
    const bool verified = keyring.has_value() && Verify(envelope, *keyring, {}).verified();
    ASSERT_EQ(verified, valid) << changed;
    (verified ? accepted : refused) += 1;
  }
  EXPECT_GT(accepted, 50);  // the test looks at both answers
  EXPECT_GT(refused, 50);
}

// Bytes of the whole keyring: it may only say less, or the same of this key.
TEST(Mutation, NoChangedKeyringTrustsAnotherKey) {
  const std::string text = TestKeyringText(
      {TestKey(kEd25519Public, "ann", {"notAfter: 2026-11-01T00:00:00Z"}, "[head]")});
  const std::string expired =
      TestEnvelope(*EvaluationStatement(TestEvaluation(SampleReport())), {kEd25519Private});
  const std::string foreign =
      TestEnvelope(*EvaluationStatement(TestEvaluation(SampleReport())), {kSecondPrivate});
  std::mt19937_64 random(20261121);
  const Region all{"keyring", 0, text.size()};
  for (int i = 0; i < kMutations; ++i) {
    const auto keyring = ReadKeyring(Mutated(text, all, &random), "ring.yaml");
    if (!keyring) continue;
    EXPECT_FALSE(Verify(foreign, *keyring, {}).verified());
    EXPECT_FALSE(Verify(expired, *keyring, {}).verified());  // needs two changes: role and date
  }
}

}  // namespace
}  // namespace kcc
