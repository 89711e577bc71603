// Promotions on evidence that the register holds, from a proposal to a rollback.
#include "kcc/register/promotions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/register/promotions_test_data.h"
#include "kcc/register/verify.h"
#include "kcc/summary/file.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

TEST_P(PromotionsTest, EvidenceFromBeforeTheProposalDoesNotCount) {
  Register target = Create();
  EXPECT_EQ(Started(target, "p-1", "infer-1", 0).state.phase, Phase::kOffline);
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline);
}

TEST_P(PromotionsTest, GoesThroughEveryStageOnEvidenceOfItsOwn) {
  Register target = Create();
  ToCanary(target);
  Record(target, Stage::kCanary, Measured(2000, 2150, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kFull);
  Record(target, Stage::kFull, Measured(3000, 3150, 0.001, "infer-1"));
  EXPECT_TRUE(Advanced(target, "p-1").state.settled);
  const auto check = Verify(target);
  ASSERT_TRUE(check.has_value());
  EXPECT_TRUE(check->ok()) << check->first_break->what;
  const auto history = ReadHistory(target, "p-1");
  ASSERT_TRUE(history.has_value());
  EXPECT_EQ(history->front().from, "none");
  EXPECT_EQ(history->back().to, "full");
}

TEST_P(PromotionsTest, ShardsOfAStepAreJoined) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  Advanced(target, "p-1");
  Record(target, Stage::kShadow, Measured(1000, 1060, 0.001, "infer-1"));
  const PromotionChange waits = Advanced(target, "p-1");
  EXPECT_EQ(waits.state.phase, Phase::kShadow);
  EXPECT_EQ(waits.state.progress.requests, 60);
  Record(target, Stage::kShadow, Measured(1060, 1150, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kCanary);
  EXPECT_EQ(ReadPromotion(target, "p-1")->state.passed.back().requests, 150);
  const auto check = Verify(target);
  EXPECT_TRUE(check->ok()) << check->first_break->what;
}

// The judge spends the look's alpha, and what is between the looks only grows.
TEST_P(PromotionsTest, PlannedLooksAreTakenAtTheirSizes) {
  policy_text_.replace(policy_text_.find("shadow: {minRequests: 100}"), 26,
                       "shadow: {looks: [{requests: 100}, {requests: 150}], spending: even}");
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  Advanced(target, "p-1");
  Record(target, Stage::kShadow, Measured(1000, 1060, 0.001, "infer-1"));
  const PromotionChange waits = Advanced(target, "p-1");
  EXPECT_EQ(waits.state.phase, Phase::kShadow);
  EXPECT_EQ(waits.state.progress.requests, 60);
  EXPECT_EQ(waits.state.progress.looks, 0);
  // 60 clean requests are enough for a test at any time, which is not what the policy plans.
  Record(target, Stage::kShadow, Measured(1060, 1100, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kCanary);
}

TEST_P(PromotionsTest, OverlappingShardsDoNotCount) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  Advanced(target, "p-1");
  Record(target, Stage::kShadow, Measured(1000, 1060, 0.001, "infer-1"));
  Advanced(target, "p-1");
  Record(target, Stage::kShadow, Measured(1030, 1190, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kShadow);
  // One that holds everything the step has is the step's evidence, grown.
  Record(target, Stage::kShadow, Measured(1000, 1150, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kCanary);
}

TEST_P(PromotionsTest, RequestsOfAStageThatWasPassedDoNotCountAgain) {
  Register target = Create();
  ToCanary(target);
  Record(target, Stage::kCanary, Measured(1000, 1150, 0.001, "infer-1"));
  Record(target, Stage::kCanary, Measured(1100, 1300, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kCanary);
}

TEST_P(PromotionsTest, EvidenceRecordedBeforeTheStageBeganDoesNotCount) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  Record(target, Stage::kShadow, Measured(1000, 1150, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kShadow);
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kShadow);
}

TEST_P(PromotionsTest, SilenceWritesNothingAndMovesNothing) {
  Register target = Create();
  ToCanary(target);
  const Head before = *target.ReadHead();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kCanary);
  EXPECT_EQ(*target.ReadHead(), before);
}

// Somebody proposes another contract elsewhere, and from then on evidence is measured for it too.
// The step goes on by the plan that it began with, and says so.
TEST_P(PromotionsTest, AWiderPlanInTheMiddleOfAStepDoesNotEndIt) {
  std::string text(kPromotedContract);
  text.replace(text.find("atMost: 0.01"), 12, "atMost: 0.02");
  const Contract other = *ReadContract(text).contract;
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  Advanced(target, "p-1");
  Record(target, Stage::kShadow, Measured(1000, 1090, 0.001, "infer-1"));
  ASSERT_EQ(Advanced(target, "p-1").state.phase, Phase::kShadow);
  const Summary wider = Measured(1090, 1150, 0.001, "infer-1", {other});
  const Summary plain = Measured(1090, 1150, 0.001, "infer-1");
  ASSERT_NE(wider.plan, plain.plan);
  Record(target, Stage::kShadow, wider);
  const PromotionChange change = Advanced(target, "p-1");
  ASSERT_EQ(change.state.phase, Phase::kCanary) << change.steps[0].note;
  EXPECT_EQ(change.state.passed.back().requests, 150);
  EXPECT_THAT(change.steps[0].note, HasSubstr("was measured by plan " + wider.plan.Digest()));
  EXPECT_THAT(change.steps[0].note, HasSubstr("the step began with plan " + plain.plan.Digest()));
  // What it rests on is what the plan of its start would have measured.
  const auto bytes = *target.ReadBlob(change.state.passed.back().evidence);
  EXPECT_EQ(*bytes, EncodeSummary(*Merge(Measured(1000, 1090, 0.001, "infer-1"), plain)));
  // The next step may begin with the wider plan, and then keeps that one.
  Record(target, Stage::kCanary, Measured(2000, 2090, 0.001, "infer-1", {other}));
  Record(target, Stage::kCanary, Measured(2090, 2150, 0.001, "infer-1"));
  const PromotionChange narrower = Advanced(target, "p-1");
  EXPECT_EQ(narrower.state.phase, Phase::kCanary);
  EXPECT_EQ(narrower.state.progress.requests, 90);
  EXPECT_THAT(narrower.steps[1].note, HasSubstr("the evaluation does not count"));
  EXPECT_THAT(narrower.steps[1].note, HasSubstr("was measured by plan " + plain.plan.Digest()));
  EXPECT_THAT(narrower.steps[1].note, HasSubstr("measured without"));
}

TEST_P(PromotionsTest, AViolatedL3InCanaryRollsBack) {
  Register target = Create();
  ToCanary(target);
  Record(target, Stage::kCanary, Measured(2000, 2150, 0.5, "infer-1"));
  const PromotionChange change = Advanced(target, "p-1");
  EXPECT_EQ(change.state.phase, Phase::kRolledBack);
  EXPECT_FALSE(CandidateServes(change.state));
  EXPECT_THAT(change.state.reason, HasSubstr("N-1"));
}

TEST_P(PromotionsTest, ARolledBackTripleTriesAgainAfterItsCoolDownOnNewEvidence) {
  Register target = Create();
  ToCanary(target);
  Record(target, Stage::kCanary, Measured(2000, 2150, 0.5, "infer-1"));
  ASSERT_EQ(Advanced(target, "p-1").state.phase, Phase::kRolledBack);
  PromotionStart start;
  start.id = "p-1";
  start.lane = "chat";
  start.candidate = TripleOf("infer-1");
  start.policy_text = policy_text_;
  for (const char* name : {"p-1", "p-2"}) {  // another name is no way around it
    start.id = name;
    EXPECT_THAT(StartPromotion(target, start, now_).error().message(),
                HasSubstr("it cools down for 1h more"));
  }
  Record(target, Stage::kOffline, Measured(300, 320, 0.001, "infer-1"));
  now_.time_ms += 3'600'000;
  start.id = "p-1";
  const auto again = StartPromotion(target, start, now_);
  ASSERT_TRUE(again.has_value()) << again.error().Format();
  EXPECT_EQ(again->state.phase, Phase::kOffline);
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline) << "recorded before it";
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline) << "counted in the first try";
  Record(target, Stage::kOffline, Measured(400, 420, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kShadow);
  // Live requests of the first try do not count again, whatever new ones they come with.
  Record(target, Stage::kShadow, Measured(1150, 1151, 0.001, "infer-1"));
  Record(target, Stage::kShadow, Measured(1000, 1150, 0.001, "infer-1"));
  const PromotionChange waits = Advanced(target, "p-1");
  EXPECT_EQ(waits.state.phase, Phase::kShadow);
  EXPECT_EQ(waits.state.progress.requests, 1);
  Record(target, Stage::kShadow, Measured(5000, 5150, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kCanary);
}

TEST_P(PromotionsTest, CandidatesOfALaneTakeTurns) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  EXPECT_EQ(Started(target, "p-2", "infer-2", 500).state.phase, Phase::kProposed);
  PromotionEvent abort;
  abort.kind = PromotionEventKind::kAbort;
  abort.at_ms = now_.time_ms;
  abort.by = "ada";
  const auto change = SendEvent(target, "p-1", abort, now_);
  ASSERT_TRUE(change.has_value()) << change.error().Format();
  ASSERT_TRUE(change->started_next.has_value());
  EXPECT_EQ(change->started_next->id, "p-2");
  EXPECT_EQ(PhaseOf(target, "p-2"), Phase::kOffline);
}

TEST_P(PromotionsTest, WhatIsNotThereIsSaid) {
  Register target = Create();
  EXPECT_THAT(ReadPromotion(target, "p-9").error().message(),
              HasSubstr("there is no promotion 'p-9'"));
  PromotionStart start;
  start.id = "p-1";
  start.lane = "chat";
  start.candidate = MadeUpDigest(7);
  start.policy_text = policy_text_;
  EXPECT_THAT(StartPromotion(target, start, now_).error().message(),
              HasSubstr("the register has no triple"));
  Started(target, "p-1", "infer-1", 0);
  start.candidate = TripleOf("infer-1");
  EXPECT_THAT(StartPromotion(target, start, now_).error().message(),
              HasSubstr("there is a promotion 'p-1' already"));
}

// A step whose evidence was removed cannot be looked at again, and says so.
TEST_P(PromotionsTest, RemovedEvidenceIsNamed) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  const Summary summary = Measured(100, 120, 0.001, "infer-1");
  Record(target, Stage::kOffline, summary);
  const std::string blob = BlobDigest(EncodeSummary(summary));
  const auto removed =
      target.Append({{EventOf("blob.removed", BodyOf({{"blob", blob}, {"why", "redacted"}}))}, {}},
                    *target.ReadHead());
  ASSERT_TRUE(removed.has_value()) << removed.error().Format();
  const auto change = AdvancePromotion(target, "p-1", now_);
  ASSERT_FALSE(change.has_value());
  EXPECT_THAT(change.error().message(), HasSubstr("is no longer stored"));
}

INSTANTIATE_TEST_SUITE_P(On, PromotionsTest,
                         ::testing::Values(Backend::kSqlite, Backend::kPostgres), BackendName);

}  // namespace
}  // namespace kcc
