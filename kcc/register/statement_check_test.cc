// Promotions whose approvals must be signed: what does not advance, and what verify names.
#include "kcc/register/statement_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/register/event_body.h"
#include "kcc/register/promotions_test_data.h"
#include "kcc/register/verify.h"
#include "kcc/statement/statement_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kSignedPolicy = R"(
apiVersion: kcc/v1
kind: PromotionPolicy
metadata: {name: p, version: 1.0.0}
spec:
  offline: {approvals: {count: 2, signed: true}}
  shadow: {minRequests: 100}
  full: {}
)";

class SignedPromotionsTest : public PromotionsTest {
 protected:
  void SetUp() override {
    PromotionsTest::SetUp();
    policy_text_ = kSignedPolicy;
  }

  // Proposed, and satisfied offline: only approvals are missing.
  Register Waiting() {
    Register target = Create();
    Started(target, "p-1", "infer-1", 0);
    Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
    EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline);
    return target;
  }

  Result<PromotionChange> Approve(Register& target, const std::string& who,
                                  const std::vector<std::string_view>& keys,
                                  const Keyring* keyring) {
    const auto signers = TestSigners(keys);
    now_.time_ms += 1000;
    const Proposer by{who, now_.time_ms, {signers, keyring, "test"}};
    PromotionEvent event;
    event.kind = PromotionEventKind::kApproval;
    event.at_ms = by.time_ms;
    event.by = who;
    return SendEvent(target, "p-1", event, by);
  }
  std::string WhyNot(Register& target, const std::string& who,
                     const std::vector<std::string_view>& keys, const Keyring* keyring) {
    const Head before = *target.ReadHead();
    const auto change = Approve(target, who, keys, keyring);
    EXPECT_EQ(*target.ReadHead(), before) << "nothing is written";
    return change.has_value() ? "" : change.error().message();
  }
  std::string FirstBreak(Register& target) {
    RegisterVerifyOptions options;
    options.keyring = &keyring_;
    const auto check = Verify(target, options);
    EXPECT_TRUE(check.has_value()) << check.error().Format();
    return check->ok() ? "" : check->first_break->what;
  }

  Keyring keyring_ =
      TestKeyring({TestKey(kEd25519Public, "bob", {"notBefore: 2023-01-01T00:00:00Z"}),
                   TestKey(kSecondPublic, "eve"),
                   TestKey(kEcdsaPublic, "old", {"notAfter: 2023-01-01T00:00:00Z"})});
};

TEST_P(SignedPromotionsTest, TwoKeysAreNeededAndEachApprovalIsStored) {
  Register target = Waiting();
  ASSERT_TRUE(Approve(target, "bob", {kEd25519Private}, &keyring_).has_value());
  EXPECT_EQ(PhaseOf(target, "p-1"), Phase::kOffline);
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline);
  // Another name with the same key is the same holder, as far as anybody can tell.
  ASSERT_TRUE(Approve(target, "bobby", {kEd25519Private}, &keyring_).has_value());
  EXPECT_EQ(PhaseOf(target, "p-1"), Phase::kOffline);
  const auto last = Approve(target, "eve", {kSecondPrivate}, &keyring_);
  ASSERT_TRUE(last.has_value()) << last.error().Format();
  EXPECT_EQ(last->state.phase, Phase::kShadow);
  EXPECT_EQ(FirstBreak(target), "");
  const auto statements =
      target.List({.table = EntryTable::kStatements, .subject = "promotion p-1"});
  // Three approvals, and the step that the last of them let the promotion take.
  EXPECT_EQ(statements->size(), 4u);
}

TEST_P(SignedPromotionsTest, AnApprovalThatWouldNotBeBelievedIsRefused) {
  Register target = Waiting();
  EXPECT_THAT(WhyNot(target, "bob", {}, &keyring_), HasSubstr("signed; sign with --key"));
  EXPECT_THAT(WhyNot(target, "bob", {kEd25519Private}, nullptr), HasSubstr("--keyring"));
  EXPECT_THAT(WhyNot(target, "bob", {kEcdsaPrivate}, &keyring_), HasSubstr("expired"));
  EXPECT_THAT(WhyNot(target, "bob", {kEd25519Private, kSecondPrivate}, &keyring_),
              HasSubstr("with one key"));
  const Keyring others = TestKeyring({TestKey(kSecondPublic, "eve")});
  EXPECT_THAT(WhyNot(target, "bob", {kEd25519Private}, &others), HasSubstr("no key"));
}

TEST_P(SignedPromotionsTest, ThePolicyMayNameTheKeyring) {
  policy_text_.replace(policy_text_.find("signed: true"), 12,
                       "signed: true, keyring: \"" + keyring_.digest + "\"");
  Register target = Waiting();
  const Keyring others =
      TestKeyring({TestKey(kEd25519Public, "mallory"), TestKey(kSecondPublic, "eve")});
  EXPECT_THAT(WhyNot(target, "mallory", {kEd25519Private}, &others), HasSubstr("of the keyring"));
  EXPECT_TRUE(Approve(target, "bob", {kEd25519Private}, &keyring_).has_value());
}

// Whoever can write to the register can write a state with approvals. It is not believed.
TEST_P(SignedPromotionsTest, AnApprovalThatNobodySignedFreezes) {
  Register target = Waiting();
  KeptPromotion kept = *ReadPromotion(target, "p-1");
  std::string body = kept.event.body;
  const std::string progress = "\"progress\":{";
  const std::string forged =
      progress +
      R"("approvals":[{"atMs":1,"by":"bob","key":"06"},{"atMs":1,"by":"eve","key":"07"}],)";
  body.replace(body.find(progress), progress.size(), forged);
  ASSERT_TRUE(
      target.Append({{EventOf("promotion.changed", body)}, {}}, *target.ReadHead()).has_value());
  now_.signing.keyring = &keyring_;
  const PromotionChange change = Advanced(target, "p-1");
  EXPECT_EQ(change.state.phase, Phase::kFrozen);
  EXPECT_THAT(change.state.reason, HasSubstr("no signed statement shows the approval of bob"));
}

TEST_P(SignedPromotionsTest, AStageThatWasLeftWithoutSignaturesIsNamed) {
  policy_text_ = kPromotionPolicy;
  Register honest = Create();
  Started(honest, "p-1", "infer-1", 0);
  EXPECT_EQ(FirstBreak(honest), "");
  policy_text_ = kSignedPolicy;
  uri_ = NewUri();
  Register target = Waiting();
  ASSERT_TRUE(Approve(target, "bob", {kEd25519Private}, &keyring_).has_value());
  const std::string body = ReadPromotion(target, "p-1")->event.body;
  // The step that two approvals would have allowed, as the machine would write it.
  const std::string left =
      R"("transitions":[{"cause":"x","from":"offline","reason":"x","to":"shadow"}])";
  std::string moved = body;
  const size_t at = moved.find("\"transitions\":[]");
  ASSERT_NE(at, std::string::npos) << body;
  moved.replace(at, std::string("\"transitions\":[]").size(), left);
  ASSERT_TRUE(
      target.Append({{EventOf("promotion.changed", moved)}, {}}, *target.ReadHead()).has_value());
  EXPECT_THAT(FirstBreak(target), HasSubstr("left offline in event"));
  EXPECT_THAT(FirstBreak(target), HasSubstr("with 1 of 2 signed approvals"));
}

// A statement about another event, step or promotion than the one that it stands beside.
TEST_P(SignedPromotionsTest, AStatementOfSomethingElseIsNamed) {
  Register target = Waiting();
  ASSERT_TRUE(Approve(target, "bob", {kEd25519Private}, &keyring_).has_value());
  const auto statements =
      *target.List({.table = EntryTable::kStatements, .subject = "promotion p-1"});
  ASSERT_EQ(statements.size(), 1u);
  const std::string envelope = **target.ReadBlob(statements[0].key.id);
  const int64_t about = statements[0].state.added - 1;
  const auto says = [&](int64_t event, const std::string& promotion) {
    StatementChecker checker(target, keyring_);
    const NewEvent made =
        StatementAdded(envelope, {EntryTable::kPromotions, promotion}, event, "x", now_.time_ms);
    const auto wrong = checker.CheckStatement({.sequence = 1000,
                                               .time_ms = now_.time_ms,
                                               .actor = "x",
                                               .kind = made.kind,
                                               .body = *CanonicalBody(made.body),
                                               .digest = ""},
                                              envelope);
    return *wrong;
  };
  EXPECT_EQ(says(about, "p-1"), "");
  EXPECT_THAT(says(about - 1, "p-1"), HasSubstr("it says event"));
  EXPECT_THAT(says(about, "p-2"), HasSubstr("is not of promotion p-2"));
  EXPECT_THAT(says(5000, "p-1"), HasSubstr("comes after it"));
  EXPECT_THAT(says(900, "p-1"), HasSubstr("there is no event 900"));
}

INSTANTIATE_TEST_SUITE_P(On, SignedPromotionsTest,
                         ::testing::Values(Backend::kSqlite, Backend::kPostgres), BackendName);

}  // namespace
}  // namespace kcc
