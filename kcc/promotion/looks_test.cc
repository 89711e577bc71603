// What the machine does where a policy plans its looks, as sentences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/promotion/promotion.h"
#include "kcc/promotion/promotion_test_data.h"

namespace kcc {
namespace {

using testing::Event;
using testing::GoodEvaluation;
using ::testing::HasSubstr;
using testing::PolicyOf;
using testing::Row;
using testing::Walk;

TEST(PlannedLooks, ATestForOneLookCountsAtThePlannedLooksAndOnceEach) {
  Walk walk(
      PolicyOf("  offline: {clean: 1}\n"
               "  shadow: {clean: 1, looks: [{requests: 1000, alpha: 2%}, "
               "{requests: 3000, alpha: 3%}]}\n  full: {}\n"));
  walk.To(Phase::kShadow);
  const auto look = [&](int64_t requests, double alpha, Verdict verdict) {
    PromotionEvent event =
        GoodEvaluation(walk.state, Stage::kShadow, 0, requests - walk.state.progress.requests);
    event.evaluation.test = TestKind::kFixed;
    event.evaluation.alpha = alpha;
    Row(event, "N-1").verdict = verdict;
    walk.Take(event);
  };
  look(999, 0.02, Verdict::kSatisfied);
  EXPECT_THAT(walk.last.note, HasSubstr("not among the looks"));
  look(1000, 0.05, Verdict::kSatisfied);
  EXPECT_THAT(walk.last.note, HasSubstr("may spend 0.02"));
  look(1000, 0.02, Verdict::kInconclusive);
  EXPECT_EQ(walk.state.progress.looks, 1);
  look(1000, 0.02, Verdict::kSatisfied);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  look(3000, 0.03, Verdict::kSatisfied);
  EXPECT_EQ(walk.state.phase, Phase::kFull);  // this policy has no canary
}

// Both kinds of tests together would err more often than the policy allows.
TEST(PlannedLooks, WhereLooksArePlannedEvidenceGrowsInBetweenAndDoesNotCount) {
  Walk walk(
      PolicyOf("  offline: {clean: 1}\n  shadow: {clean: 1, looks: [{requests: 1000, alpha: 5%}]}\n"
               "  canary: {clean: 1, steps: [{traffic: 1%}]}\n  full: {clean: 1}\n"));
  walk.To(Phase::kShadow);
  PromotionEvent event = GoodEvaluation(walk.state, Stage::kShadow, 0, 600);
  walk.Take(event);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  EXPECT_FALSE(walk.state.progress.ready);
  EXPECT_EQ(walk.state.progress.requests, 600);
  EXPECT_THAT(walk.last.note, HasSubstr("counts at the looks that the policy plans"));
  event = GoodEvaluation(walk.state, Stage::kShadow, 0, 400);
  walk.Take(event);  // the size of the look, by a test for any time
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  // Bad news counts at every moment.
  event = GoodEvaluation(walk.state, Stage::kShadow, 0, 1);
  Row(event, "N-1").verdict = Verdict::kViolated;
  walk.Take(event);
  EXPECT_EQ(walk.state.phase, Phase::kRejected);
}

TEST(PlannedLooks, ASatisfiedLookDoesNotOutlastWhatIsSeenAfterIt) {
  Walk walk(PolicyOf(
      "  offline: {clean: 1}\n  shadow: {clean: 1}\n  canary: {clean: 1, levels: [L1, L2, L3],"
      " steps: [{traffic: 1%}], looks: [{requests: 1000, alpha: 5%}], approvals: {count: 1}}\n"
      "  full: {clean: 1}\n"));
  walk.To(Phase::kCanary);
  PromotionEvent event = GoodEvaluation(walk.state, Stage::kCanary, 0, 1000);
  event.evaluation.test = TestKind::kFixed;
  event.evaluation.alpha = 0.05;
  walk.Take(event);
  ASSERT_TRUE(walk.state.progress.ready);
  event = GoodEvaluation(walk.state, Stage::kCanary, 0, 500);
  Row(event, "R-1").verdict = Verdict::kViolated;
  walk.Take(event);
  EXPECT_FALSE(walk.state.progress.ready);
  PromotionEvent approval = Event(PromotionEventKind::kApproval);
  approval.by = "bob";
  walk.Take(approval);
  EXPECT_EQ(walk.state.phase, Phase::kCanary);
}

// A guard that only a planned look could take off would stay for ever after the last one.
TEST(PlannedLooks, AGuardIsTakenOffAfterTheLastPlannedLookToo) {
  for (const bool missed : {false, true}) {  // the last look was used, or the evidence jumped it
    Walk walk(PolicyOf(
        "  offline: {clean: 1}\n  shadow: {clean: 1}\n  canary: {clean: 1, steps: [{traffic: 1%}],"
        " looks: [{requests: 500, alpha: 2%}, {requests: 1000, alpha: 3%}],"
        " approvals: {count: 1}}\n  full: {clean: 1}\n"));
    walk.To(Phase::kCanary);
    const auto grow = [&](int64_t more, Verdict verdict) {
      PromotionEvent event = GoodEvaluation(walk.state, Stage::kCanary, 0, more);
      Row(event, "N-2").verdict = verdict;
      walk.Take(event);
    };
    grow(600, Verdict::kViolated);
    ASSERT_TRUE(walk.state.progress.guarded);
    grow(100, Verdict::kSatisfied);
    EXPECT_TRUE(walk.state.progress.guarded) << "the look at 1000 requests is to come";
    if (missed) {
      grow(301, Verdict::kInconclusive);
    } else {
      PromotionEvent look = GoodEvaluation(walk.state, Stage::kCanary, 0, 300);
      look.evaluation.test = TestKind::kFixed;
      look.evaluation.alpha = 0.03;
      Row(look, "N-2").verdict = Verdict::kInconclusive;
      walk.Take(look);
    }
    EXPECT_TRUE(walk.state.progress.guarded);
    grow(500, Verdict::kInconclusive);
    EXPECT_TRUE(walk.state.progress.guarded) << "what is not shown takes nothing off";
    grow(500, Verdict::kSatisfied);
    EXPECT_FALSE(walk.state.progress.guarded);
    EXPECT_TRUE(walk.Sent(CommandKind::kUnguard));
    // It does not advance by it: the looks have spent the error that the policy allows.
    EXPECT_FALSE(walk.state.progress.ready);
    PromotionEvent approval = Event(PromotionEventKind::kApproval);
    approval.by = "bob";
    walk.Take(approval);
    EXPECT_EQ(walk.state.phase, Phase::kCanary);
    walk.Take(Event(PromotionEventKind::kTick));
    EXPECT_THAT(walk.last.note, HasSubstr("no planned look is left; abort it and propose anew"));
    // Frozen, nothing is taken off.
    grow(500, Verdict::kViolated);
    ASSERT_TRUE(walk.state.progress.guarded);
    walk.Take(Event(PromotionEventKind::kFreeze));
    grow(500, Verdict::kSatisfied);
    EXPECT_TRUE(walk.state.progress.guarded);
  }
}

TEST(PlannedLooks, AGuardOnWhatIsSettledIsTakenOffAfterTheLastPlannedLook) {
  Walk walk(
      PolicyOf("  offline: {clean: 1}\n  full: {clean: 1, looks: [{requests: 100, alpha: 5%}]}\n"));
  walk.Start().Good(Stage::kOffline);
  PromotionEvent look = GoodEvaluation(walk.state, Stage::kFull, 0, 100);
  look.evaluation.test = TestKind::kFixed;
  look.evaluation.alpha = 0.05;
  walk.Take(look);
  ASSERT_TRUE(walk.state.settled);
  PromotionEvent bad = GoodEvaluation(walk.state, Stage::kFull, 0, 100);
  Row(bad, "N-2").verdict = Verdict::kViolated;
  walk.Take(bad);
  ASSERT_TRUE(walk.state.progress.guarded);
  walk.Good(Stage::kFull);
  EXPECT_FALSE(walk.state.progress.guarded);
  EXPECT_TRUE(walk.Sent(CommandKind::kUnguard));
  EXPECT_TRUE(walk.state.settled);
}

}  // namespace
}  // namespace kcc
