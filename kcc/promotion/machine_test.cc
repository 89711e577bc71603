// What the machine does, as sentences. Every phase with every event, and random sequences, stand in
// property_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kcc/promotion/promotion.h"
#include "kcc/promotion/promotion_test_data.h"

namespace kcc {
namespace {

using testing::Event;
using testing::GoodEvaluation;
using ::testing::HasSubstr;
using testing::kHourMs;
using testing::PlainPolicy;
using testing::PolicyOf;
using testing::Row;
using testing::Walk;

TEST(Promotion, GoesThroughEveryStageOnItsOwnEvidence) {
  Walk walk(PlainPolicy());
  EXPECT_EQ(walk.state.phase, Phase::kProposed);
  walk.Start();
  EXPECT_EQ(walk.state.phase, Phase::kOffline);
  EXPECT_THAT(walk.state.reason, HasSubstr("kernel build"));
  walk.Good(Stage::kOffline);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  EXPECT_EQ(walk.Routed(), 0);
  walk.Good(Stage::kShadow);
  EXPECT_EQ(walk.state.phase, Phase::kCanary);
  EXPECT_EQ(walk.Routed(), 0.01);
  walk.Good(Stage::kCanary);
  EXPECT_EQ(walk.state.step, 1);
  EXPECT_EQ(walk.Routed(), 0.1);
  EXPECT_FALSE(CandidateServes(walk.state));
  walk.Good(Stage::kCanary);
  EXPECT_EQ(walk.state.phase, Phase::kFull);
  EXPECT_EQ(walk.Routed(), 1);
  EXPECT_TRUE(CandidateServes(walk.state));
  walk.Good(Stage::kFull);
  EXPECT_TRUE(walk.state.settled);
  EXPECT_TRUE(walk.Sent(CommandKind::kSettle));
  EXPECT_TRUE(walk.Sent(CommandKind::kStartNext));
  EXPECT_EQ(walk.state.passed.size(), 5u);
  EXPECT_THAT(walk.state.reason, HasSubstr("O-1 held on 5000 clean requests, which excludes a rate "
                                           "above 0.000599 at confidence 0.95"));
}

TEST(Promotion, NothingButEvidenceOfTheStageMovesIt) {
  Walk walk(PlainPolicy());
  walk.To(Phase::kShadow);
  for (const PromotionEventKind kind :
       {PromotionEventKind::kTick, PromotionEventKind::kStart, PromotionEventKind::kApproval,
        PromotionEventKind::kHookAnswer, PromotionEventKind::kUnfreeze}) {
    PromotionEvent event = Event(kind);
    event.by = "grace";
    walk.Take(event);
    EXPECT_EQ(walk.state.phase, Phase::kShadow) << Name(kind);
    EXPECT_TRUE(walk.last.transitions.empty());
  }
  for (const Stage other : {Stage::kOffline, Stage::kCanary, Stage::kFull}) {
    walk.Good(other);
    EXPECT_EQ(walk.state.phase, Phase::kShadow);
    EXPECT_THAT(walk.last.note, HasSubstr("only that of shadow counts"));
  }
}

TEST(Promotion, EvidenceCountsOnceAndInOneStage) {
  Walk walk(PlainPolicy());
  walk.Start();
  const PromotionEvent offline = GoodEvaluation(walk.state, Stage::kOffline);
  walk.Take(offline);
  ASSERT_EQ(walk.state.phase, Phase::kShadow);
  PromotionEvent relabelled = GoodEvaluation(walk.state, Stage::kShadow);
  relabelled.evaluation.evidence = offline.evaluation.evidence;
  walk.Take(relabelled);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  EXPECT_THAT(walk.last.note, HasSubstr("counted before"));

  walk.Good(Stage::kShadow);
  const PromotionEvent step = GoodEvaluation(walk.state, Stage::kCanary);
  walk.Take(step);
  ASSERT_EQ(walk.state.step, 1);
  walk.Take(step);  // the same event again, say by a client that tries again
  EXPECT_EQ(walk.state.step, 1);
}

TEST(Promotion, EveryLookContinuesTheOneBefore) {
  Walk walk(PlainPolicy());
  walk.To(Phase::kShadow);
  PromotionEvent first = GoodEvaluation(walk.state, Stage::kShadow);
  Row(first, "N-1").verdict = Verdict::kInconclusive;
  Row(first, "N-1").reason = "about 340 more requests";
  walk.Take(first);
  EXPECT_THAT(walk.last.note, HasSubstr("N-1 (L3) is inconclusive: about 340 more requests"));
  PromotionEvent fresh = GoodEvaluation(walk.state, Stage::kShadow);
  fresh.evaluation.continues = "";
  walk.Take(fresh);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  EXPECT_THAT(walk.last.note, HasSubstr("another chance to err"));
  PromotionEvent smaller = GoodEvaluation(walk.state, Stage::kShadow, 1, 0);
  walk.Take(smaller);
  EXPECT_THAT(walk.last.note, HasSubstr("no more requests"));
  walk.Good(Stage::kShadow);
  EXPECT_EQ(walk.state.phase, Phase::kCanary);
}

TEST(Promotion, OnlyTestsThatAllowLookingAgainCountWhileEvidenceGrows) {
  for (const TestKind test : {TestKind::kExact, TestKind::kFixed}) {
    Walk walk(PlainPolicy());
    walk.To(Phase::kShadow);
    PromotionEvent event = GoodEvaluation(walk.state, Stage::kShadow);
    event.evaluation.test = test;
    event.evaluation.alpha = 0.01;
    walk.Take(event);
    EXPECT_EQ(walk.state.phase, Phase::kShadow) << Name(test);
    EXPECT_THAT(walk.last.note, HasSubstr("does not count"));
  }
}

TEST(Promotion, WhoStartsItAgainDoesNotApproveIt) {
  Walk walk(PolicyOf(
      "  coolDown: 1h\n  offline: {clean: 1, approvals: {count: 1}}\n  shadow: {clean: 1}\n"
      "  canary: {clean: 1, steps: [{traffic: 1%}]}\n  full: {clean: 1}\n"));
  walk.state.phase = Phase::kRolledBack;
  walk.state.rollbacks = 1;
  PromotionEvent again = Event(PromotionEventKind::kStart, 3'600'000);
  again.by = "bob";
  walk.Take(again);
  ASSERT_EQ(walk.state.phase, Phase::kOffline);
  PromotionEvent approval = Event(PromotionEventKind::kApproval, 3'600'000);
  for (const char* name : {"ada", "bob"}) {  // the one proposed it, the other started it again
    approval.by = name;
    walk.Take(approval);
    EXPECT_TRUE(walk.state.progress.approvals.empty()) << name;
  }
}

TEST(Promotion, OfflineATestForOneLookIsUsedOnce) {
  Walk walk(PlainPolicy());
  walk.Start();
  PromotionEvent first = GoodEvaluation(walk.state, Stage::kOffline);
  first.evaluation.test = TestKind::kFixed;
  Row(first, "N-1").verdict = Verdict::kInconclusive;
  walk.Take(first);
  PromotionEvent second = GoodEvaluation(walk.state, Stage::kOffline);
  second.evaluation.test = TestKind::kFixed;
  walk.Take(second);
  EXPECT_EQ(walk.state.phase, Phase::kOffline);
  EXPECT_THAT(walk.last.note, HasSubstr("used in this stage already"));
}

TEST(Promotion, AViolationBeforeTrafficRejectsAndNamesTheClause) {
  for (const Phase phase : {Phase::kOffline, Phase::kShadow}) {
    for (const char* id : {"N-1", "N-2"}) {
      Walk walk(PlainPolicy());
      walk.To(phase);
      PromotionEvent event =
          GoodEvaluation(walk.state, phase == Phase::kOffline ? Stage::kOffline : Stage::kShadow);
      Row(event, id).verdict = Verdict::kViolated;
      Row(event, id).reason = "on slice long-context, mean_kl is 0.06";
      Row(event, id).incumbent = Verdict::kSatisfied;
      walk.Take(event);
      EXPECT_EQ(walk.state.phase, Phase::kRejected);
      EXPECT_THAT(walk.state.reason, HasSubstr(id));
      EXPECT_THAT(walk.state.reason, HasSubstr("slice long-context"));
      EXPECT_THAT(walk.state.reason, HasSubstr("the incumbent satisfies it"));
      EXPECT_TRUE(walk.Sent(CommandKind::kStartNext));
    }
  }
}

TEST(Promotion, L3InTrafficRollsBackInTheSameStepEvenWhileItWaitsOrIsFrozen) {
  for (const Phase phase : {Phase::kCanary, Phase::kFull}) {
    for (const bool frozen : {false, true}) {
      for (const Stage of : {Stage::kShadow, Stage::kCanary, Stage::kFull}) {
        Walk walk(PlainPolicy());
        walk.To(phase);
        if (frozen) walk.Take(Event(PromotionEventKind::kFreeze));
        PromotionEvent event = GoodEvaluation(walk.state, of);
        Row(event, "N-1").verdict = Verdict::kViolated;
        event.evaluation.continues = "anything";  // bad news needs no good manners
        walk.Take(event);
        EXPECT_EQ(walk.state.phase, Phase::kRolledBack);
        EXPECT_EQ(walk.Routed(), 0);
        EXPECT_FALSE(CandidateServes(walk.state));
        EXPECT_EQ(CandidateShare(walk.policy, walk.state), 0);
      }
    }
  }
}

TEST(Promotion, L2InTrafficGuardsUntilItIsSatisfiedAgain) {
  Walk walk(PlainPolicy());
  walk.To(Phase::kCanary);
  PromotionEvent event = GoodEvaluation(walk.state, Stage::kCanary);
  Row(event, "N-2").verdict = Verdict::kViolated;
  walk.Take(event);
  EXPECT_EQ(walk.state.phase, Phase::kCanary);
  EXPECT_TRUE(walk.Sent(CommandKind::kGuard));
  EXPECT_TRUE(walk.state.progress.guarded);
  walk.Good(Stage::kCanary);
  EXPECT_TRUE(walk.Sent(CommandKind::kUnguard));
  EXPECT_EQ(walk.state.step, 1);
}

TEST(Promotion, TheContractMayOrderMoreThanTheLevel) {
  const auto act = [](Action action) {
    Walk walk(PlainPolicy());
    walk.To(Phase::kCanary);
    PromotionEvent event = GoodEvaluation(walk.state, Stage::kCanary);
    Row(event, "N-2").verdict = Verdict::kViolated;
    Row(event, "N-2").action = action;
    return walk.Take(event).state.phase;
  };
  EXPECT_EQ(act(Action::kLog), Phase::kCanary);
  EXPECT_EQ(act(Action::kFreeze), Phase::kFrozen);
  EXPECT_EQ(act(Action::kFallback), Phase::kRolledBack);
  EXPECT_EQ(act(Action::kRollback), Phase::kRolledBack);
}

TEST(Promotion, AnErrorFreezesAndAfterItTheEvidenceMustBeSatisfiedAgain) {
  Walk walk(PlainPolicy());
  walk.To(Phase::kShadow);
  PromotionEvent event = GoodEvaluation(walk.state, Stage::kShadow);
  Row(event, "N-2").verdict = Verdict::kError;
  walk.Take(event);
  ASSERT_EQ(walk.state.phase, Phase::kFrozen);
  EXPECT_THAT(walk.state.reason, HasSubstr("N-2 (L2) could not be judged"));
  walk.Good(Stage::kShadow);
  EXPECT_EQ(walk.state.phase, Phase::kFrozen);
  walk.Take(Event(PromotionEventKind::kUnfreeze));
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  EXPECT_FALSE(walk.state.progress.ready);
  walk.Good(Stage::kShadow);
  EXPECT_EQ(walk.state.phase, Phase::kCanary);
}

TEST(Promotion, AVerdictThatIsMissingOrOfAnotherClauseIsNotSatisfied) {
  Walk walk(PlainPolicy());
  walk.Start();
  PromotionEvent without = GoodEvaluation(walk.state, Stage::kOffline);
  std::erase_if(without.evaluation.clauses, [](const auto& row) { return row.id == "N-2"; });
  walk.Take(without);
  EXPECT_EQ(walk.state.phase, Phase::kOffline);
  EXPECT_THAT(walk.last.note, HasSubstr("no verdict on N-2"));
  PromotionEvent other = GoodEvaluation(walk.state, Stage::kOffline);
  other.evaluation.contract = "another";
  walk.Take(other);
  EXPECT_EQ(walk.state.phase, Phase::kOffline);
  PromotionEvent relevelled = GoodEvaluation(walk.state, Stage::kOffline);
  Row(relevelled, "N-1").level = ViolationLevel::kL1;
  walk.Take(relevelled);
  EXPECT_EQ(walk.state.phase, Phase::kFrozen);
}

TEST(Promotion, CleanRequestsHoldOnlyHardClausesThatNoSampleCertifies) {
  const auto note = [](std::string_view id, int64_t audited, int64_t exceeding,
                       std::string_view spec) {
    Walk walk(PolicyOf(spec));
    walk.To(Phase::kShadow);
    PromotionEvent event = GoodEvaluation(walk.state, Stage::kShadow);
    Row(event, id).verdict = Verdict::kInconclusive;
    Row(event, id).audited = audited;
    Row(event, id).exceeding = exceeding;
    return walk.Take(event).state.phase == Phase::kShadow ? walk.last.note : "";
  };
  EXPECT_EQ(note("O-1", 3000, 0, testing::kPlainSpec), "");
  EXPECT_THAT(note("O-1", 2999, 0, testing::kPlainSpec), HasSubstr("2999 of 3000 clean"));
  EXPECT_THAT(note("O-1", 9000, 1, testing::kPlainSpec), HasSubstr("was exceeded by a request"));
  EXPECT_THAT(note("N-1", 9000, 0, testing::kPlainSpec), HasSubstr("N-1 (L3) is inconclusive"));
  EXPECT_THAT(note("O-1", 9000, 0, "  offline: {clean: 1}\n  shadow: {}\n  full: {}\n"),
              HasSubstr("the policy names no number of clean requests"));
}

TEST(Promotion, OneExceedanceIsRememberedForTheWholeStep) {
  Walk walk(PlainPolicy());
  walk.To(Phase::kShadow);
  PromotionEvent seen = GoodEvaluation(walk.state, Stage::kShadow);
  Row(seen, "O-1").exceeding = 1;
  walk.Take(seen);
  walk.Good(Stage::kShadow);  // says that all are clean
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
}

TEST(Promotion, TheRateThatCleanRequestsExcludeIsExact) {
  // (1 - rate)^n is what n clean requests have probability of: equal to 1 - confidence.
  for (const int64_t n : {1, 10, 299, 3000, 1'000'000}) {
    const double rate = ExcludedRate(n, 0.95);
    EXPECT_NEAR(std::pow(1 - rate, static_cast<double>(n)), 0.05, 1e-9) << n;
  }
  EXPECT_NEAR(ExcludedRate(3000, 0.95), 0.000998, 1e-6);
}

TEST(Promotion, TheStabilityWindowNeedsALookAtItsEnd) {
  Walk walk(
      PolicyOf("  offline: {clean: 1}\n"
               "  shadow: {clean: 1, stabilityWindow: 2h, deadline: 9h}\n  full: {}\n"));
  walk.To(Phase::kShadow);
  walk.Good(Stage::kShadow, kHourMs);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  walk.Take(Event(PromotionEventKind::kTick, 4 * kHourMs));
  EXPECT_EQ(walk.state.phase, Phase::kShadow) << "silence is not stability";
  // In between it was not satisfied: the window begins anew.
  PromotionEvent doubt = GoodEvaluation(walk.state, Stage::kShadow, 4 * kHourMs);
  Row(doubt, "N-2").verdict = Verdict::kInconclusive;
  walk.Take(doubt);
  walk.Good(Stage::kShadow, 5 * kHourMs);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  walk.Good(Stage::kShadow, 6 * kHourMs);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  walk.Good(Stage::kShadow, 7 * kHourMs);
  EXPECT_EQ(walk.state.phase, Phase::kFull);
}

TEST(Promotion, ADeadlineEndsAsThePolicySays) {
  const auto after = [](Phase phase) {
    Walk walk(PlainPolicy());
    walk.To(phase);
    walk.Take(Event(PromotionEventKind::kTick, 10 * kHourMs - 1));
    EXPECT_EQ(walk.state.phase, phase);
    walk.Take(Event(PromotionEventKind::kTick, 10 * kHourMs));
    EXPECT_THAT(walk.state.reason, HasSubstr("deadline of 10h passed"));
    EXPECT_THAT(walk.state.reason, HasSubstr("there is no evidence of this stage yet"));
    return walk.state.phase;
  };
  EXPECT_EQ(after(Phase::kOffline), Phase::kRejected);
  EXPECT_EQ(after(Phase::kShadow), Phase::kFrozen);
  EXPECT_EQ(after(Phase::kCanary), Phase::kRolledBack);
  // Good evidence that comes too late comes too late, with or without a tick before it.
  Walk walk(PlainPolicy());
  walk.Start().Good(Stage::kOffline, 10 * kHourMs);
  EXPECT_EQ(walk.state.phase, Phase::kRejected);
}

TEST(Promotion, TooFewRequestsWait) {
  Walk walk(PlainPolicy());
  walk.To(Phase::kShadow);
  PromotionEvent few = GoodEvaluation(walk.state, Stage::kShadow, 0, 99);
  Row(few, "O-1").verdict = Verdict::kSatisfied;
  walk.Take(few);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  EXPECT_THAT(walk.last.note, HasSubstr("99 of 100 requests"));
}

TEST(Promotion, TimeDoesNotRunBackwards) {
  Walk walk(PlainPolicy());
  walk.Take(Event(PromotionEventKind::kTick, 5 * kHourMs));
  walk.Take(Event(PromotionEventKind::kStart, kHourMs));
  EXPECT_EQ(walk.state.now_ms, 5 * kHourMs);
  EXPECT_EQ(walk.state.progress.entered_ms, 5 * kHourMs);
}

TEST(Promotion, RefusesWhatDoesNotFit) {
  const PromotionPolicy policy = PlainPolicy();
  const PromotionState state = testing::Proposed(policy);
  EXPECT_FALSE(
      Step(PolicyOf("  offline: {}\n  full: {}\n"), state, Event(PromotionEventKind::kTick)));
  EXPECT_FALSE(Step(policy, state, Event(PromotionEventKind::kTick, -1)));
  PromotionState edited = state;
  edited.phase = Phase::kCanary;
  edited.step = 2;
  EXPECT_FALSE(Step(policy, edited, Event(PromotionEventKind::kTick)));
  const auto propose = [&](Deployment candidate, std::vector<AskedClause> asked) {
    return Propose(
        policy, {"p", "", "", std::move(candidate), testing::Incumbent(), std::move(asked), {}, 0});
  };
  EXPECT_FALSE(propose(testing::Incumbent(), testing::PlainAsked()));
  EXPECT_FALSE(propose(testing::Candidate(), {}));
  EXPECT_FALSE(propose({"a", "", "", "other", "", ""}, testing::PlainAsked()));
}

}  // namespace
}  // namespace kcc
