// Promotions whose approvals must be signed: what does not advance, and what verify names.
#include "kcc/register/statement_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/register/signed_promotions_test_data.h"
#include "kcc/statement/evaluation.h"
#include "kcc/statement/generic_predicates.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

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
  Append(target, "promotion.changed",
         Forged(ReadPromotion(target, "p-1")->event.body,
                R"({"atMs":1,"by":"bob","key":"06"},{"atMs":1,"by":"eve","key":"07"})"));
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
  // The step that two approvals would have allowed, as the machine would write it.
  Append(target, "promotion.changed", Moved(ReadPromotion(target, "p-1")->event.body, "shadow"));
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

// Predicates of others are held to the log like ours: what passed, of what, when, and by which key.
TEST_P(SignedPromotionsTest, AVerificationSummaryIsOfItsEvaluationAndItsTime) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  const auto evaluations = *target.List({.table = EntryTable::kEvaluations});
  ASSERT_EQ(evaluations.size(), 1u);
  const Event& about = evaluations[0].event;
  const Keyring ring =
      TestKeyring({TestKey(kEd25519Public, "ci", {"notAfter: 2024-01-01T00:00:00Z"})});
  StatedEvaluation right = TestEvaluation(ConvergentSample());
  right.time_ms = about.time_ms;
  right.contract_digest = ContractDigest(contract_);
  right.triple = TripleOf("infer-1");
  const auto says = [&](const StatedEvaluation& evaluation, int64_t told_ms) {
    StatementChecker checker(target, ring);
    std::string first;
    for (const Statement& statement :
         {*VsaStatement(evaluation, {.verifier = "kcc:x", .resource = "urn:a:b", .input = {}}),
          *TestResultStatement(evaluation)}) {
      const std::string envelope = TestEnvelope(statement, {kEd25519Private});
      const NewEvent made =
          StatementAdded(envelope, evaluations[0].key, about.sequence, "x", told_ms);
      const auto wrong = checker.CheckStatement({.sequence = 1000,
                                                 .time_ms = told_ms,
                                                 .actor = "x",
                                                 .kind = made.kind,
                                                 .body = *CanonicalBody(made.body),
                                                 .digest = ""},
                                                envelope);
      if (first.empty()) first = *wrong;  // a Test Result has no time of its own
    }
    return first;
  };
  EXPECT_EQ(says(right, about.time_ms), "");
  StatedEvaluation other = right;
  other.time_ms -= 1000;
  EXPECT_THAT(says(other, about.time_ms), HasSubstr("it says time '2023-11-14T22:13:19Z'"));
  other = right;
  other.contract_digest = other.triple = MadeUpDigest(7);
  EXPECT_THAT(says(other, about.time_ms), HasSubstr("neither the triple nor the contract"));
  // The key is asked for the time in the log, whatever the statement says of its time.
  constexpr int64_t kIn2025 = 1'750'000'000'000;
  EXPECT_THAT(says(right, kIn2025), HasSubstr("expired"));
}

// What was approved is the promotion's triple under its policy and contract, in one role.
TEST_P(SignedPromotionsTest, AnApprovalOfSomethingElseIsNamed) {
  Register target = Waiting();
  Append(target, "approval.given",
         BodyOf({{"promotion", "p-1"}, {"stage", "offline"}, {"role", "on-call"}}));
  PromotionRecord right = RecordOfLast(target);
  right.approvals = {{"tester", right.time_ms, "on-call"}};
  const auto says = [&](const PromotionRecord& record) {
    StatementChecker checker(target, keyring_);
    const std::string envelope = Envelope(record);
    const NewEvent made = StatementAdded(envelope, {EntryTable::kPromotions, "p-1"},
                                         record.sequence, "x", now_.time_ms);
    return *checker.CheckStatement({.sequence = 1000,
                                    .time_ms = now_.time_ms,
                                    .actor = "x",
                                    .kind = made.kind,
                                    .body = *CanonicalBody(made.body),
                                    .digest = ""},
                                   envelope);
  };
  EXPECT_EQ(says(right), "");
  PromotionRecord other = right;
  other.triple = MadeUpDigest(7);
  EXPECT_THAT(says(other), HasSubstr("it says triple '" + MadeUpDigest(7) + "'"));
  other = right;
  other.policy.digest = MadeUpDigest(7);
  EXPECT_THAT(says(other), HasSubstr("it says policy"));
  other = right;
  other.contract.digest = MadeUpDigest(7);
  EXPECT_THAT(says(other), HasSubstr("it says contract"));
  other = right;
  other.approvals[0].note = "security";
  EXPECT_THAT(says(other), HasSubstr("it says role 'security', and the log says 'on-call'"));
  other = right;
  other.approvals.clear();
  EXPECT_THAT(says(other), HasSubstr("it is not the approval of tester"));
}

// The step of a promotion that a trusted key signed under the name of an approval is none.
TEST_P(SignedPromotionsTest, OnlyTheStatementOfAnApprovalBacksOne) {
  for (const bool named : {false, true}) {
    uri_ = NewUri();
    Register target = Waiting();
    Append(target, "promotion.changed",
           Forged(ReadPromotion(target, "p-1")->event.body,
                  R"({"atMs":1,"by":"bob","key":")" + std::string(kEd25519Id) + "\"}"));
    PromotionRecord record = RecordOfLast(target);
    if (named) record.approvals = {{"bob", record.time_ms, ""}};
    const std::string envelope = Envelope(record);
    const NewEvent statement = StatementAdded(envelope, {EntryTable::kPromotions, "p-1"},
                                              record.sequence, "x", now_.time_ms);
    ASSERT_TRUE(target.Append({{statement}, {envelope}}, *target.ReadHead()).has_value());
    now_.signing.keyring = &keyring_;
    EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kFrozen) << named;
    now_.signing.keyring = nullptr;
  }
}

// An approval is for one stay: what was entered anew needs new ones, whatever `entered` says.
TEST_P(SignedPromotionsTest, AnApprovalOfAnEarlierStayBacksNothing) {
  Register target = Waiting();
  ASSERT_TRUE(Approve(target, "bob", {kEd25519Private}, &keyring_).has_value());
  const std::string body = ReadPromotion(target, "p-1")->event.body;
  now_.signing.keyring = &keyring_;
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline);
  Append(target, "promotion.changed", Moved(body, "proposed"));
  Append(target, "promotion.changed", body);
  const PromotionChange change = Advanced(target, "p-1");
  EXPECT_EQ(change.state.phase, Phase::kFrozen);
  EXPECT_THAT(change.state.reason, HasSubstr("no signed statement shows the approval of bob"));
}

// An approval that is signed and good stays so over a freeze.
TEST_P(SignedPromotionsTest, FreezingDoesNotVoidApprovals) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  now_.signing.keyring = &keyring_;
  ASSERT_TRUE(Approve(target, "bob", {kEd25519Private}, &keyring_).has_value());
  for (const auto kind : {PromotionEventKind::kFreeze, PromotionEventKind::kUnfreeze}) {
    PromotionEvent event;
    event.kind = kind;
    event.at_ms = now_.time_ms += 1000;
    event.by = "ann";
    ASSERT_TRUE(SendEvent(target, "p-1", event, now_).has_value());
  }
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline);
  const auto last = Approve(target, "eve", {kSecondPrivate}, &keyring_);
  ASSERT_TRUE(last.has_value()) << last.error().Format();
  EXPECT_EQ(last->state.phase, Phase::kShadow);
  EXPECT_EQ(FirstBreak(target), "");
}

TEST_P(SignedPromotionsTest, AForgedApprovalFreezesBeforeAnApprovalOrAnotherEvent) {
  Register target = Waiting();
  const std::string body = ReadPromotion(target, "p-1")->event.body;
  Append(target, "promotion.changed", Forged(body, R"({"atMs":1,"by":"bob","key":"06"})"));
  const auto change = Approve(target, "eve", {kSecondPrivate}, &keyring_);
  ASSERT_TRUE(change.has_value()) << change.error().Format();
  EXPECT_EQ(change->state.phase, Phase::kFrozen);
  EXPECT_EQ(PhaseOf(target, "p-1"), Phase::kFrozen);
  EXPECT_THAT(change->state.reason, HasSubstr("no signed statement shows the approval of bob"));
  EXPECT_TRUE(target.List({.table = EntryTable::kApprovals})->empty());
  now_.signing.keyring = &keyring_;
  PromotionEvent event;
  event.at_ms = now_.time_ms;
  for (const auto& [kind, phase] : {std::pair{PromotionEventKind::kHookAnswer, Phase::kFrozen},
                                    std::pair{PromotionEventKind::kAbort, Phase::kRejected}}) {
    Append(target, "promotion.changed", Forged(body, R"({"atMs":1,"by":"bob","key":"06"})"));
    event.kind = kind;
    const auto sent = SendEvent(target, "p-1", event, now_);
    ASSERT_TRUE(sent.has_value()) << sent.error().Format();
    EXPECT_EQ(sent->state.phase, phase);
    EXPECT_EQ(sent->steps[0].state.phase, Phase::kFrozen);
  }
}

INSTANTIATE_TEST_SUITE_P(On, SignedPromotionsTest,
                         ::testing::Values(Backend::kSqlite, Backend::kPostgres), BackendName);

}  // namespace
}  // namespace kcc
