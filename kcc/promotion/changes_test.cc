// What people, hooks, incidents and kinds of change do to a promotion, as sentences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Promotion, PeopleAgreeBesideTheEvidenceAndNotInPlaceOfIt) {
  Walk walk(PolicyOf("  offline: {clean: 1, approvals: {count: 2, roles: [sre]}}\n  full: {}\n"));
  walk.Start();
  const auto approve = [&](std::string by, std::string role) {
    PromotionEvent event = Event(PromotionEventKind::kApproval);
    event.by = std::move(by);
    event.role = std::move(role);
    walk.Take(event);
  };
  approve("ada", "sre");
  EXPECT_THAT(walk.last.note, HasSubstr("ada proposed it"));
  approve("grace", "intern");
  EXPECT_THAT(walk.last.note, HasSubstr("role 'intern' does not approve"));
  approve("grace", "sre");
  approve("grace", "sre");
  EXPECT_THAT(walk.last.note, HasSubstr("approved already"));
  walk.Good(Stage::kOffline);
  EXPECT_THAT(walk.last.note, HasSubstr("1 more approval by sre"));
  approve("alan", "sre");
  EXPECT_EQ(walk.state.phase, Phase::kFull);
}

TEST(Promotion, HooksAreAskedBeforeTheStepTheyGuard) {
  Walk walk(
      PolicyOf("  offline: {clean: 1}\n  shadow: {clean: 1}\n"
               "  canary: {clean: 1, steps: [{traffic: 1%}, {traffic: 2%}]}\n  full: {}\n  hooks:\n"
               "    - {point: confirm-rollout, name: begin, exec: a}\n"
               "    - {point: pre-rollout, name: pre, exec: a}\n"
               "    - {point: rollout, name: each, exec: a}\n"
               "    - {point: confirm-traffic-increase, name: more, exec: a}\n"
               "    - {point: confirm-promotion, name: last, exec: a}\n"
               "    - {point: rollback, name: back, http: 'http://x'}\n"
               "    - {point: post-rollout, name: post, exec: a}\n"
               "    - {point: event, name: log, exec: a}\n"));
  const auto asked = [&] {
    std::vector<std::string> names;
    for (const Command& command : walk.last.commands) {
      if (command.kind == CommandKind::kRunHook) names.push_back(command.hook);
    }
    return names;
  };
  const auto answer = [&](std::string hook, bool yes) {
    PromotionEvent event = Event(PromotionEventKind::kHookAnswer);
    event.hook = std::move(hook);
    event.yes = yes;
    walk.Take(event);
  };
  using ::testing::ElementsAre;
  walk.Start();
  EXPECT_EQ(walk.state.phase, Phase::kProposed);
  EXPECT_THAT(asked(), ElementsAre("begin"));
  answer("last", true);  // not asked: says nothing
  EXPECT_EQ(walk.state.phase, Phase::kProposed);
  answer("begin", true);
  EXPECT_EQ(walk.state.phase, Phase::kOffline);
  walk.Good(Stage::kOffline).Good(Stage::kShadow);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  EXPECT_THAT(asked(), ElementsAre("pre"));
  answer("pre", false);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  walk.Take(Event(PromotionEventKind::kTick));
  EXPECT_THAT(asked(), ElementsAre("pre")) << "a hook that said no is asked again";
  answer("pre", true);
  EXPECT_EQ(walk.state.phase, Phase::kCanary);
  EXPECT_THAT(asked(), ElementsAre("each", "back"));
  answer("each", true);
  EXPECT_EQ(walk.state.step, 0);
  walk.Good(Stage::kCanary);
  EXPECT_THAT(asked(), ElementsAre("more"));
  answer("more", true);
  EXPECT_EQ(walk.state.step, 1);
  walk.Good(Stage::kCanary);
  answer("last", true);
  EXPECT_EQ(walk.state.phase, Phase::kCanary) << "the step's own hook has not answered";
  answer("each", true);
  EXPECT_EQ(walk.state.phase, Phase::kFull);
  EXPECT_TRUE(walk.Sent(CommandKind::kTellHook));
  answer("back", false);
  EXPECT_EQ(walk.state.phase, Phase::kFull);
  answer("back", true);
  EXPECT_EQ(walk.state.phase, Phase::kRolledBack);
}

TEST(Promotion, AClauseCanBeWatchedBeforeItHasPower) {
  Walk walk(PolicyOf(std::string(testing::kPlainSpec) +
                     "  enforce: [{clause: N-1, mode: shadow}, {clause: N-2, mode: off}]\n"));
  walk.To(Phase::kCanary);
  PromotionEvent event = GoodEvaluation(walk.state, Stage::kCanary);
  Row(event, "N-1").verdict = Verdict::kViolated;
  Row(event, "N-2").verdict = Verdict::kError;
  walk.Take(event);
  EXPECT_EQ(walk.state.step, 1) << walk.last.note;
}

TEST(Promotion, ARollbackCoolsDownLongerEachTimeAndBeginsAnew) {
  Walk walk(PlainPolicy());
  const auto roll_back = [&](int64_t at) {
    PromotionEvent abort = Event(PromotionEventKind::kAbort, at);
    walk.Take(abort);
    ASSERT_EQ(walk.state.phase, Phase::kRolledBack);
  };
  walk.To(Phase::kCanary);
  const std::string before = walk.state.passed[0].evidence;
  roll_back(0);
  walk.Take(Event(PromotionEventKind::kStart, kHourMs - 1));
  EXPECT_EQ(walk.state.phase, Phase::kRolledBack);
  walk.Take(Event(PromotionEventKind::kStart, kHourMs));
  ASSERT_EQ(walk.state.phase, Phase::kOffline);
  EXPECT_TRUE(walk.state.passed.empty());
  PromotionEvent old = GoodEvaluation(walk.state, Stage::kOffline);
  old.evaluation.evidence = before;
  walk.Take(old);
  EXPECT_EQ(walk.state.phase, Phase::kOffline)
      << "what passed the first try does not pass this one";
  walk.Good(Stage::kOffline, kHourMs + 1).Good(Stage::kShadow, kHourMs + 1);
  roll_back(kHourMs + 1);
  walk.Take(Event(PromotionEventKind::kStart, 3 * kHourMs));
  EXPECT_EQ(walk.state.phase, Phase::kRolledBack);
  walk.Take(Event(PromotionEventKind::kStart, 3 * kHourMs + 1));
  EXPECT_EQ(walk.state.phase, Phase::kOffline);
}

TEST(Promotion, AllFiveKindsOfChangeGoTheSameWay) {
  const std::vector<std::pair<Deployment, std::string>> changes = {
      {{"new", "bf16", "fp16", "contract", "", ""}, "weights"},
      {{"weights", "bf16", "fp8", "contract", "", ""}, "kernel build"},
      {{"weights", "bf16", "fp16", "contract", "by-length", ""}, "routing"},
      {{"weights", "bf16", "fp16", "contract", "", "b200"}, "hardware"},
      {{"weights", "bf16", "fp16", "stricter", "", ""}, "contract"},
  };
  for (const auto& [candidate, word] : changes) {
    const PromotionPolicy policy = PlainPolicy();
    Walk walk(policy, testing::Proposed(policy, "p", candidate));
    walk.Start();
    EXPECT_THAT(walk.state.reason, HasSubstr("what changes is " + word));
    walk.Good(Stage::kOffline).Good(Stage::kShadow).Good(Stage::kCanary).Good(Stage::kCanary);
    walk.Good(Stage::kFull);
    EXPECT_TRUE(walk.state.settled) << word;
    EXPECT_EQ(walk.state.passed.size(), 5u);
  }
}

TEST(Promotion, AContractIsJudgedUnderOldAndNewAndALooserOneNeedsAPerson) {
  const PromotionPolicy policy = PlainPolicy();
  const Deployment candidate{"weights", "bf16", "fp16", "looser", "", ""};
  Walk walk(policy, testing::Proposed(policy, "p", candidate));
  walk.Start();
  PromotionEvent alone = GoodEvaluation(walk.state, Stage::kOffline);
  alone.evaluation.old_contract = "";
  walk.Take(alone);
  EXPECT_THAT(walk.last.note, HasSubstr("not judged under the incumbent's contract"));
  PromotionEvent approval = Event(PromotionEventKind::kApproval);
  approval.by = "grace";
  walk.Take(approval);  // before anybody could know
  PromotionEvent looser = GoodEvaluation(walk.state, Stage::kOffline);
  looser.evaluation.under_old[0].verdict = Verdict::kViolated;
  walk.Take(looser);
  EXPECT_EQ(walk.state.phase, Phase::kOffline);
  EXPECT_THAT(walk.last.note, HasSubstr("the old contract does not grant N-1"));
  walk.Take(approval);
  EXPECT_EQ(walk.state.phase, Phase::kShadow);
  EXPECT_THAT(walk.state.reason, HasSubstr("looser than the old contract in N-1"));
}

TEST(Promotion, IncidentsFreezeBeforeTrafficAndActInIt) {
  const auto after = [](Phase phase, ViolationLevel level) {
    Walk walk(PlainPolicy());
    walk.To(phase);
    PromotionEvent event = Event(PromotionEventKind::kIncident);
    event.level = level;
    walk.Take(event);
    return walk.state.phase;
  };
  EXPECT_EQ(after(Phase::kShadow, ViolationLevel::kL1), Phase::kShadow);
  EXPECT_EQ(after(Phase::kShadow, ViolationLevel::kL2), Phase::kFrozen);
  EXPECT_EQ(after(Phase::kCanary, ViolationLevel::kL2), Phase::kCanary);
  EXPECT_EQ(after(Phase::kCanary, ViolationLevel::kL3), Phase::kRolledBack);
  EXPECT_EQ(after(Phase::kFull, ViolationLevel::kL3), Phase::kRolledBack);
}

TEST(Promotion, WhatIsSettledCanStillBeRolledBack) {
  Walk walk(PlainPolicy());
  walk.To(Phase::kFull).Good(Stage::kFull);
  ASSERT_TRUE(walk.state.settled);
  walk.Good(Stage::kFull);
  EXPECT_EQ(walk.last.note, "satisfied");
  PromotionEvent bad = GoodEvaluation(walk.state, Stage::kFull);
  Row(bad, "O-1").verdict = Verdict::kViolated;
  walk.Take(bad);
  EXPECT_EQ(walk.state.phase, Phase::kRolledBack);
  EXPECT_FALSE(walk.state.settled);
}

}  // namespace
}  // namespace kcc
