#include "kcc/statement/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/format/base64.h"
#include "kcc/statement/chain_head.h"
#include "kcc/statement/dsse.h"
#include "kcc/statement/generic_predicates.h"
#include "kcc/statement/promotion_record.h"
#include "kcc/statement/statement_test_data.h"

namespace kcc {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> FailureNames(const Verification& found) {
  std::vector<std::string> names;
  for (const NamedFailure& failure : found.failures) names.emplace_back(Name(failure.failure));
  return names;
}

std::string Violated(const std::vector<std::string_view>& keys = {kEd25519Private}) {
  return TestEnvelope(*EvaluationStatement(TestEvaluation(SampleReport())), keys);
}
std::string Satisfied(const std::vector<std::string_view>& keys = {kEd25519Private}) {
  return TestEnvelope(*EvaluationStatement(TestEvaluation(ConvergentSample())), keys);
}

// A statement whose bytes the test chooses, signed as it stands.
std::string SignedBytes(std::string payload,
                        std::string_view type = "application/vnd.in-toto+json") {
  DsseEnvelope envelope{std::string(type), std::move(payload), {}};
  KCC_CHECK(AddSignature(**SignerFromPem(kEd25519Private), &envelope).has_value());
  return EnvelopeJson(envelope);
}

TEST(Verify, AStatementOfAKnownKeyHolds) {
  const Keyring keyring = TestKeyring({TestKey(kEd25519Public, "ann")});
  const Verification found = Verify(Violated(), keyring, {});
  EXPECT_TRUE(found.verified()) << found.failures[0].text;
  EXPECT_EQ(found.verdict, Verdict::kViolated);
  EXPECT_EQ(found.time_ms, TestTime(kTestTime));
  ASSERT_EQ(found.signatures.size(), 1u);
  EXPECT_EQ(found.signatures[0].owner, "ann");
}

TEST(Verify, TheTimeOfTheEventDecides) {
  const Keyring keyring =
      TestKeyring({TestKey(kEd25519Public, "ann",
                           {"notBefore: 2026-11-01T00:00:00Z", "notAfter: 2026-12-01T00:00:00Z"})});
  const std::string envelope = Satisfied();
  const auto at = [&](const char* time) {
    return FailureNames(Verify(envelope, keyring, {.time_ms = TestTime(time)}));
  };
  EXPECT_THAT(FailureNames(Verify(envelope, keyring, {})), IsEmpty());
  EXPECT_THAT(at("2026-10-31T23:59:59.999Z"), ElementsAre("not-yet-valid", "too-few-keys"));
  EXPECT_THAT(at("2026-11-01T00:00:00Z"), IsEmpty());
  EXPECT_THAT(at("2026-11-30T23:59:59.999Z"), IsEmpty());
  EXPECT_THAT(at("2026-12-01T00:00:00Z"), ElementsAre("expired", "too-few-keys"));
}

TEST(Verify, ARevokedKeyHoldsForWhatWasBefore) {
  const Keyring keyring =
      TestKeyring({TestKey(kEd25519Public, "ann", {"revokedAt: 2026-11-18T09:30:00Z"})});
  const std::string envelope = Satisfied();
  EXPECT_THAT(FailureNames(Verify(envelope, keyring, {})), ElementsAre("revoked", "too-few-keys"));
  EXPECT_TRUE(
      Verify(envelope, keyring, {.time_ms = TestTime("2026-11-18T09:29:59.999Z")}).verified());
}

TEST(Verify, AfterRotationBothGenerationsHoldInTheirTimes) {
  const Keyring keyring =
      TestKeyring({TestKey(kEd25519Public, "ann", {"notAfter: 2026-12-01T00:00:00Z"}),
                   TestKey(kSecondPublic, "ann", {"notBefore: 2026-12-01T00:00:00Z"})});
  const int64_t before = TestTime("2026-11-30T00:00:00Z");
  const int64_t after = TestTime("2026-12-02T00:00:00Z");
  EXPECT_TRUE(Verify(Satisfied({kEd25519Private}), keyring, {.time_ms = before}).verified());
  EXPECT_FALSE(Verify(Satisfied({kEd25519Private}), keyring, {.time_ms = after}).verified());
  EXPECT_FALSE(Verify(Satisfied({kSecondPrivate}), keyring, {.time_ms = before}).verified());
  EXPECT_TRUE(Verify(Satisfied({kSecondPrivate}), keyring, {.time_ms = after}).verified());
  // While keys change hands both sign; whichever is valid then carries it.
  const std::string both = Satisfied({kEd25519Private, kSecondPrivate});
  EXPECT_TRUE(Verify(both, keyring, {.time_ms = before}).verified());
  EXPECT_TRUE(Verify(both, keyring, {.time_ms = after}).verified());
  EXPECT_FALSE(Verify(both, keyring, {.time_ms = after, .threshold = 2}).verified());
}

TEST(Verify, AThresholdCountsDistinctKeys) {
  const Keyring keyring = TestKeyring(
      {TestKey(kEd25519Public, "ann", {"id: other-name"}), TestKey(kEcdsaPublic, "hsm")});
  const std::string one = Satisfied({kEd25519Private});
  const std::string two = Satisfied({kEd25519Private, kEcdsaPrivate});
  EXPECT_THAT(FailureNames(Verify(one, keyring, {.threshold = 2})), ElementsAre("too-few-keys"));
  EXPECT_TRUE(Verify(two, keyring, {.threshold = 2}).verified());
  EXPECT_THAT(FailureNames(Verify(two, keyring, {.threshold = 3})), ElementsAre("too-few-keys"));

  // The same key twice: the same signature, under its other name, and an ECDSA signature made anew.
  DsseEnvelope twice = *ReadEnvelope(one);
  twice.signatures.push_back(twice.signatures[0]);
  EXPECT_THAT(FailureNames(Verify(EnvelopeJson(twice), keyring, {.threshold = 2})),
              ElementsAre("repeated-key", "too-few-keys"));
  twice.signatures[1].key_id = "other-name";
  EXPECT_THAT(FailureNames(Verify(EnvelopeJson(twice), keyring, {.threshold = 2})),
              ElementsAre("repeated-key", "too-few-keys"));
  DsseEnvelope again = *ReadEnvelope(Satisfied({kEcdsaPrivate}));
  again.signatures.push_back(ReadEnvelope(Satisfied({kEcdsaPrivate}))->signatures[0]);
  ASSERT_NE(again.signatures[0].signature, again.signatures[1].signature);
  EXPECT_FALSE(Verify(EnvelopeJson(again), keyring, {.threshold = 2}).verified());
}

TEST(Verify, CosigningAddsAKeyAndNoOther) {
  const Keyring keyring =
      TestKeyring({TestKey(kEd25519Public, "ann"), TestKey(kEcdsaPublic, "hsm")});
  const std::string one = Satisfied({kEd25519Private});
  const auto two = AddSignatures(one, TestSigners({kEcdsaPrivate}));
  ASSERT_TRUE(two) << two.error().Format();
  EXPECT_TRUE(Verify(*two, keyring, {.threshold = 2}).verified());
  EXPECT_FALSE(AddSignatures(*two, TestSigners({kEcdsaPrivate})));
  EXPECT_FALSE(AddSignatures(SignedBytes("not a statement"), TestSigners({kEcdsaPrivate})));
  EXPECT_FALSE(AddSignatures(one, {}));
  EXPECT_FALSE(SignStatement(*EvaluationStatement(TestEvaluation(SampleReport())),
                             TestSigners({kEcdsaPrivate, kEcdsaPrivate})));
}

TEST(Verify, EachFailureHasItsName) {
  const Keyring ann = TestKeyring({TestKey(kEd25519Public, "ann")});
  const std::string good = Satisfied();
  DsseEnvelope envelope = *ReadEnvelope(good);

  EXPECT_THAT(FailureNames(Verify(good, TestKeyring({TestKey(kEcdsaPublic, "hsm")}), {})),
              ElementsAre("unknown-key", "too-few-keys"));
  EXPECT_THAT(FailureNames(Verify("not json", ann, {})), ElementsAre("malformed"));
  EXPECT_THAT(FailureNames(Verify(SignedBytes("{}", "text/plain"), ann, {})),
              ElementsAre("wrong-payload-type"));
  EXPECT_THAT(FailureNames(Verify(SignedBytes("{}"), ann, {})), ElementsAre("malformed"));
  EXPECT_THAT(FailureNames(Verify(SignedBytes(""), ann, {})), ElementsAre("malformed"));

  DsseEnvelope forged = envelope;
  forged.payload = ReadEnvelope(Violated())->payload;
  EXPECT_THAT(FailureNames(Verify(EnvelopeJson(forged), ann, {})),
              ElementsAre("forged", "too-few-keys"));
  forged = envelope;
  forged.payload_type = "application/vnd.in-toto+jsoN";
  EXPECT_THAT(FailureNames(Verify(EnvelopeJson(forged), ann, {})),
              ElementsAre("wrong-payload-type"));

  EXPECT_THAT(
      FailureNames(
          Verify(good, TestKeyring({TestKey(kEd25519Public, "ann", {}, "[promotion, head]")}), {})),
      ElementsAre("wrong-role", "too-few-keys"));
  EXPECT_THAT(FailureNames(Verify(good, ann, {.subjects = {"sha256:" + std::string(64, '0')}})),
              ElementsAre("subject-mismatch"));
  EXPECT_TRUE(
      Verify(good, ann, {.subjects = {TestEvaluation(SampleReport()).contract_digest}}).verified());
  EXPECT_THAT(FailureNames(Verify(Violated(), ann, {.verdict = Verdict::kSatisfied})),
              ElementsAre("verdict-mismatch"));
  EXPECT_TRUE(Verify(good, ann, {.verdict = Verdict::kSatisfied}).verified());
  const Statement other{{{"a", "sha256:" + std::string(64, '0')}}, "https://example.com/x", "{}"};
  EXPECT_THAT(FailureNames(Verify(TestEnvelope(other, {kEd25519Private}), ann, {})),
              ElementsAre("unknown-predicate-type"));
}

// An unsigned payload is not looked at: whoever cannot sign cannot reach the reader behind it.
TEST(Verify, NothingUnsignedIsInterpreted) {
  const Keyring keyring = TestKeyring({TestKey(kEcdsaPublic, "hsm")});
  const Verification found = Verify(Satisfied(), keyring, {});
  EXPECT_FALSE(found.statement);
  EXPECT_FALSE(found.verdict);
  EXPECT_FALSE(found.time_ms);
}

TEST(Verify, ASignedContradictionIsMalformed) {
  const Keyring keyring = TestKeyring({TestKey(kEd25519Public, "ann")});
  std::string payload = ReadEnvelope(Violated())->payload;
  const std::string from = R"("verdict":"violated","passed":false)";
  payload.replace(payload.find(from), from.size(), R"("verdict":"satisfied","passed":true)");
  const Verification found = Verify(SignedBytes(payload), keyring, {});
  EXPECT_THAT(FailureNames(found), ElementsAre("malformed"));
  EXPECT_THAT(found.failures[0].text, HasSubstr("the clauses make it 'violated'"));
  std::string other = ReadEnvelope(Satisfied())->payload;
  const std::string digest = R"("digest":{"sha256":")";
  other.replace(other.find(digest) + digest.size(), 8, "00000000");
  EXPECT_THAT(Verify(SignedBytes(other), keyring, {}).failures[0].text,
              HasSubstr("subjects are not what was evaluated"));
}

TEST(Verify, KnowsEveryKindAndItsRole) {
  const std::string digest = "sha256:" + std::string(64, '1');
  PromotionRecord promotion;
  promotion.triple = promotion.contract.digest = promotion.policy.digest = digest;
  const StatedEvaluation evaluation = TestEvaluation(ConvergentSample());
  struct Case {
    Statement statement;
    const char* role;
    bool has_time;
    std::optional<Verdict> verdict;
  };
  const Case cases[] = {
      {*EvaluationStatement(evaluation), "[evaluation]", true, Verdict::kSatisfied},
      {*VsaStatement(evaluation,
                     {.verifier = "kcc:x", .resource = "urn:a:b", .input = {"e", digest}}),
       "[evaluation]", true, Verdict::kSatisfied},
      {*TestResultStatement(evaluation), "[evaluation]", false, Verdict::kSatisfied},
      {*PromotionStatement(promotion), "[promotion]", true, std::nullopt},
      {*ChainHeadStatement({"r", 3, digest, 0}), "[head]", true, std::nullopt},
  };
  for (const Case& one : cases) {
    const std::string envelope = TestEnvelope(one.statement, {kEd25519Private});
    for (const char* role : {"[evaluation]", "[promotion]", "[head]"}) {
      const Keyring keyring = TestKeyring({TestKey(kEd25519Public, "ann", {}, role)});
      const Verification found = Verify(envelope, keyring, {});
      EXPECT_EQ(found.verified(), std::string_view(role) == one.role)
          << one.statement.predicate_type << role;
      EXPECT_EQ(found.verdict, one.verdict);
    }
    const Keyring dated =
        TestKeyring({TestKey(kEd25519Public, "ann", {"notAfter: 2030-01-01T00:00:00Z"})});
    EXPECT_EQ(FailureNames(Verify(envelope, dated, {})).empty(), one.has_time);
    if (!one.has_time) {
      EXPECT_THAT(FailureNames(Verify(envelope, dated, {})), Contains("no-time"));
    }
    EXPECT_TRUE(Verify(envelope, dated, {.time_ms = 0}).verified());
    // The time that a statement gives of itself is what its key is asked for, of every kind.
    const Keyring expired =
        TestKeyring({TestKey(kEd25519Public, "ann", {"notAfter: 1970-01-01T00:00:00Z"})});
    EXPECT_THAT(FailureNames(Verify(envelope, expired, {})),
                Contains(one.has_time ? "expired" : "no-time"));
    EXPECT_EQ(Verify(envelope, dated, {.time_ms = 0}).stated_time_ms.has_value(), one.has_time);
  }
}

}  // namespace
}  // namespace kcc
