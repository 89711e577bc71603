// Every phase with every event; and properties of random sequences of events.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "kcc/promotion/promotion.h"
#include "kcc/promotion/promotion_json.h"
#include "kcc/promotion/promotion_test_data.h"
#include "kcc/promotion/queue.h"

namespace kcc {
namespace {

using testing::Event;
using testing::kHourMs;
using testing::PolicyOf;
using testing::Walk;

constexpr std::string_view kSpec =
    "  coolDown: 1h\n"
    "  offline: {clean: 100, deadline: 20h, onDeadline: reject}\n"
    "  shadow: {minRequests: 50, clean: 100, deadline: 20h, stabilityWindow: 1h}\n"
    "  canary: {steps: [{traffic: 1%}, {traffic: 10%}], clean: 100, deadline: 20h,"
    " approvals: {count: 1}}\n"
    "  full: {clean: 100}\n"
    "  hooks: [{point: confirm-promotion, name: gate, exec: a},"
    " {point: rollback, name: back, exec: a}]\n";

// One promotion in every phase, as events alone bring it there.
PromotionState In(const PromotionPolicy& policy, Phase phase) {
  Walk walk(policy);
  const auto event = [](PromotionEventKind kind) {
    PromotionEvent made = Event(kind);
    made.by = "grace";
    return made;
  };
  const auto reach = [&](Phase live) {
    walk.Start();
    if (live >= Phase::kShadow) walk.Good(Stage::kOffline);
    if (live >= Phase::kCanary) walk.Good(Stage::kShadow, 0).Good(Stage::kShadow, kHourMs);
    if (live < Phase::kFull) return;
    walk.Good(Stage::kCanary, kHourMs).Good(Stage::kCanary, kHourMs);
    walk.Take(event(PromotionEventKind::kApproval));
    PromotionEvent yes = event(PromotionEventKind::kHookAnswer);
    yes.hook = "gate";
    yes.yes = true;
    walk.Take(yes);
  };
  switch (phase) {
    case Phase::kProposed:
      break;
    case Phase::kOffline:
    case Phase::kShadow:
    case Phase::kCanary:
    case Phase::kFull:
      reach(phase);
      break;
    case Phase::kRejected:
      walk.Take(event(PromotionEventKind::kAbort));
      break;
    case Phase::kRolledBack:
      reach(Phase::kCanary);
      walk.Take(event(PromotionEventKind::kAbort));
      break;
    case Phase::kFrozen:
      reach(Phase::kCanary);
      walk.Take(event(PromotionEventKind::kFreeze));
      break;
    case Phase::kSuperseded:
      walk.Take(event(PromotionEventKind::kSuperseded));
      break;
  }
  EXPECT_EQ(walk.state.phase, phase) << Name(phase);
  return walk.state;
}

// The table of docs/promotion.md: where each event leads, the event being the best or the plain one
// of its kind. Order of phases: Phase; "" is "stays".
constexpr const char* kTable[kPromotionEventKinds][kPhases] = {
    // proposed, offline, shadow, canary, full, rejected, rolled-back, frozen, superseded
    {"offline", "", "", "", "", "", "", "", ""},                            // start
    {"", "shadow", "", "", "", "", "", "", ""},                             // evaluation
    {"", "", "", "", "", "", "", "", ""},                                   // tick
    {"", "", "", "", "", "", "", "", ""},                                   // approval
    {"", "", "", "rolled-back", "rolled-back", "", "", "rolled-back", ""},  // hook-answer
    {"frozen", "frozen", "frozen", "frozen", "frozen", "", "", "", ""},     // freeze
    {"", "", "", "", "", "", "", "canary", ""},                             // unfreeze
    {"rejected", "rejected", "rejected", "rolled-back", "rolled-back", "", "", "rolled-back",
     ""},  // abort
    {"superseded", "superseded", "superseded", "superseded", "superseded", "", "", "superseded",
     ""},  // superseded
    {"frozen", "frozen", "frozen", "rolled-back", "rolled-back", "", "", "rolled-back",
     ""},  // incident of L3
};

// The best or the plain event of this kind, for the phase.
PromotionEvent EventFor(const PromotionState& state, PromotionEventKind kind) {
  const Phase phase = state.phase;
  Stage stage = Stage::kOffline;
  if (phase == Phase::kShadow) stage = Stage::kShadow;
  if (phase == Phase::kCanary || phase == Phase::kFrozen) stage = Stage::kCanary;
  if (phase == Phase::kFull) stage = Stage::kFull;
  PromotionEvent event = testing::GoodEvaluation(state, stage, state.now_ms);
  if (kind != PromotionEventKind::kEvaluation) event = Event(kind, state.now_ms);
  event.by = "grace";
  event.hook = "back";
  event.yes = true;
  event.level = ViolationLevel::kL3;
  return event;
}

TEST(PromotionTable, EveryPhaseTakesEveryEvent) {
  const PromotionPolicy policy = PolicyOf(kSpec);
  for (int p = 0; p < kPhases; ++p) {
    const auto phase = static_cast<Phase>(p);
    const PromotionState state = In(policy, phase);
    for (int e = 0; e < kPromotionEventKinds; ++e) {
      const auto kind = static_cast<PromotionEventKind>(e);
      const auto result = Step(policy, state, EventFor(state, kind));
      ASSERT_TRUE(result.has_value()) << Name(phase) << " x " << Name(kind);
      const std::string wanted = kTable[e][p];
      const std::string where = std::string(Name(phase)) + " x " + std::string(Name(kind));
      EXPECT_EQ(Name(result->state.phase), wanted.empty() ? Name(phase) : std::string_view(wanted))
          << where;
      // Whatever happened or did not, there is a sentence about it.
      EXPECT_FALSE(result->note.empty() && result->transitions.empty()) << where;
      for (const Transition& row : result->transitions) EXPECT_FALSE(row.reason.empty()) << where;
      if (!wanted.empty()) {
        EXPECT_EQ(result->state.reason, result->transitions.back().reason) << where;
      }
    }
  }
}

// Guarded, with planned looks that are to come, used up or jumped: every event is defined there as
// well, and only a satisfied evaluation after the last look takes the guard off.
TEST(PromotionTable, GuardedBetweenAndAfterPlannedLooksEveryEventIsDefined) {
  const PromotionPolicy policy = PolicyOf(
      "  offline: {clean: 1}\n  shadow: {clean: 1}\n  canary: {clean: 1, steps: [{traffic: 1%}],"
      " looks: [{requests: 1000, alpha: 5%}]}\n  full: {clean: 1}\n"
      "  hooks: [{point: rollback, name: back, exec: a}]\n");
  for (const int64_t requests : {500, 1000, 5000}) {
    for (const int64_t looks : {0, 1}) {
      if (looks == 1 && requests < 1000) continue;
      Walk walk(policy);
      walk.To(Phase::kCanary);
      PromotionEvent bad = testing::GoodEvaluation(walk.state, Stage::kCanary, 0, requests);
      if (looks == 1 && requests == 1000) {
        bad.evaluation.test = TestKind::kFixed;
        bad.evaluation.alpha = 0.05;
      }
      testing::Row(bad, "N-2").verdict = Verdict::kViolated;
      walk.Take(bad);
      ASSERT_TRUE(walk.state.progress.guarded);
      walk.state.progress.looks = looks;
      for (int e = 0; e < kPromotionEventKinds; ++e) {
        const auto kind = static_cast<PromotionEventKind>(e);
        const std::string where = std::to_string(requests) + " requests, " + std::to_string(looks) +
                                  " looks x " + std::string(Name(kind));
        const auto result = Step(policy, walk.state, EventFor(walk.state, kind));
        ASSERT_TRUE(result.has_value()) << where;
        EXPECT_FALSE(result->note.empty() && result->transitions.empty()) << where;
        const std::string wanted = kTable[e][static_cast<int>(Phase::kCanary)];
        EXPECT_EQ(Name(result->state.phase), wanted.empty() ? "canary" : wanted) << where;
        const bool off = std::any_of(
            result->commands.begin(), result->commands.end(),
            [](const Command& command) { return command.kind == CommandKind::kUnguard; });
        // 5000 more requests than the guarded evidence has, so the look at 1000 is behind it.
        EXPECT_EQ(off, kind == PromotionEventKind::kEvaluation) << where;
      }
    }
  }
}

// --- Random sequences.

Verdict DrawVerdict() {
  // Mostly good, so that sequences get somewhere.
  return *rc::gen::weightedElement<Verdict>({{20, Verdict::kSatisfied},
                                             {2, Verdict::kInconclusive},
                                             {1, Verdict::kError},
                                             {1, Verdict::kViolated}});
}

Stage PresentStage(const PromotionState& state) {
  switch (state.phase == Phase::kFrozen ? state.frozen_from : state.phase) {
    case Phase::kShadow:
      return Stage::kShadow;
    case Phase::kCanary:
      return Stage::kCanary;
    case Phase::kFull:
      return Stage::kFull;
    default:
      return Stage::kOffline;
  }
}

PromotionEvent DrawEvaluation(const PromotionState& state, int64_t at,
                              const std::vector<PromotionEvent>& earlier) {
  const int kind = *rc::gen::inRange(0, 60);                               // from 10 on: good
  if (kind == 0 && !earlier.empty()) return *rc::gen::elementOf(earlier);  // again
  const Stage stage = kind == 1 ? *rc::gen::elementOf(testing::AllStages()) : PresentStage(state);
  PromotionEvent event =
      testing::GoodEvaluation(state, stage, at, *rc::gen::element<int64_t>(0, 10, 200, 200, 200));
  Evaluation& evaluation = event.evaluation;
  if (kind == 2) evaluation.continues = testing::Digest("other");
  if (kind == 3) evaluation.test = *rc::gen::element(TestKind::kExact, TestKind::kFixed);
  if (kind == 4 && !state.counted.empty()) {
    evaluation.evidence = *rc::gen::elementOf(state.counted);  // of an earlier stage
  }
  if (kind == 5) evaluation.clauses.pop_back();
  if (kind == 6) evaluation.clauses.clear();
  if (kind == 7) evaluation.contract = "another";
  if (kind >= 8 && kind <= 9) {
    for (ClauseFinding& row : evaluation.clauses) {
      if (row.hard && *rc::gen::inRange(0, 4) > 0) continue;
      row.verdict = DrawVerdict();
      row.exceeding = *rc::gen::inRange(0, 10) == 0 ? 1 : 0;
    }
  }
  return event;
}

PromotionEvent DrawEvent(const PromotionState& state, const std::vector<PromotionEvent>& earlier) {
  const int64_t at = state.now_ms + *rc::gen::element<int64_t>(0, 60'000, kHourMs, kHourMs, -5);
  const auto kind =
      *rc::gen::weightedElement<PromotionEventKind>({{3, PromotionEventKind::kStart},
                                                     {30, PromotionEventKind::kEvaluation},
                                                     {3, PromotionEventKind::kTick},
                                                     {4, PromotionEventKind::kApproval},
                                                     {6, PromotionEventKind::kHookAnswer},
                                                     {1, PromotionEventKind::kFreeze},
                                                     {2, PromotionEventKind::kUnfreeze},
                                                     {1, PromotionEventKind::kIncident}});
  PromotionEvent event = Event(kind, std::max<int64_t>(at, 0));
  if (kind == PromotionEventKind::kEvaluation) event = DrawEvaluation(state, event.at_ms, earlier);
  event.by = *rc::gen::element<std::string>("ada", "grace", "");
  if (kind == PromotionEventKind::kHookAnswer) {
    event.hook = *rc::gen::element<std::string>("gate", "gate", "gate", "back", "none");
    event.yes = event.hook != "back";
  }
  event.level = *rc::gen::element(ViolationLevel::kL1, ViolationLevel::kL2);
  return event;
}

struct Taken {
  PromotionState before;
  PromotionEvent event;
  StepResult result;
};

std::vector<Taken> DrawSequence(const PromotionPolicy& policy, int length) {
  std::vector<Taken> taken;
  std::vector<PromotionEvent> evaluations;
  PromotionState state = testing::Proposed(policy);
  for (int i = 0; i < length; ++i) {
    const PromotionEvent event = DrawEvent(state, evaluations);
    auto result = Step(policy, state, event);
    RC_ASSERT(result.has_value());
    if (event.kind == PromotionEventKind::kEvaluation) evaluations.push_back(event);
    taken.push_back({state, event, *result});
    state = result->state;
  }
  return taken;
}

// A phase forwards, a step of the canary forwards, or settling; starting is none.
bool Advanced(const PromotionState& before, const PromotionState& after) {
  if (before.phase == Phase::kProposed || IsOver(before.phase)) return false;
  const bool staged = before.phase <= Phase::kFull && after.phase <= Phase::kFull;
  return staged &&
         (after.phase > before.phase || (after.phase == before.phase && after.step > before.step) ||
          (after.settled && !before.settled));
}

// Judged by itself, not by the machine's code: the evaluation would pass the stage.
bool IsSatisfied(const Evaluation& evaluation, const std::vector<AskedClause>& asked) {
  for (const AskedClause& clause : asked) {
    if (clause.level == ViolationLevel::kL1) continue;
    const auto row = std::find_if(evaluation.clauses.begin(), evaluation.clauses.end(),
                                  [&](const ClauseFinding& one) { return one.id == clause.id; });
    if (row == evaluation.clauses.end()) return false;
    const bool clean = clause.hard && row->verdict == Verdict::kInconclusive &&
                       row->exceeding == 0 && row->audited >= 100;
    if (row->verdict != Verdict::kSatisfied && !clean) return false;
  }
  return true;
}

RC_GTEST_PROP(PromotionProperties, AdvancesOnlyOnFreshSatisfiedEvidenceOfItsOwnStage, ()) {
  const PromotionPolicy policy = PolicyOf(kSpec);
  const std::vector<Taken> taken = DrawSequence(policy, 80);
  std::set<std::string> used;  // evidence that an advance rested on
  for (size_t i = 0; i < taken.size(); ++i) {
    const Taken& now = taken[i];
    if (!Advanced(now.before, now.result.state)) continue;
    RC_ASSERT(now.event.kind != PromotionEventKind::kTick);
    RC_ASSERT(now.before.phase != Phase::kFrozen);
    const std::string evidence = now.result.state.passed.back().evidence;
    RC_ASSERT(used.insert(evidence).second);
    // Told by an event of this stage, in this step of it, and satisfied.
    const bool told =
        std::any_of(taken.begin(), taken.begin() + static_cast<long>(i) + 1, [&](const Taken& row) {
          return row.event.kind == PromotionEventKind::kEvaluation &&
                 row.event.evaluation.evidence == evidence &&
                 row.before.phase == now.before.phase && row.before.step == now.before.step &&
                 row.event.evaluation.stage == PresentStage(now.before) &&
                 IsSatisfied(row.event.evaluation, now.before.asked);
        });
    RC_ASSERT(told);
    RC_TAG("advanced");
  }
}

RC_GTEST_PROP(PromotionProperties, FullHasPassedEveryStageInForce, ()) {
  const PromotionPolicy policy = PolicyOf(kSpec);
  for (const Taken& now : DrawSequence(policy, 80)) {
    const PromotionState& state = now.result.state;
    if (!CandidateServes(state)) continue;
    std::vector<std::pair<Stage, int64_t>> passed;
    for (const PassedStep& step : state.passed) passed.emplace_back(step.stage, step.step);
    const std::vector<std::pair<Stage, int64_t>> asked = {
        {Stage::kOffline, 0}, {Stage::kShadow, 0}, {Stage::kCanary, 0}, {Stage::kCanary, 1}};
    RC_ASSERT(passed.size() >= asked.size());
    RC_ASSERT(std::equal(asked.begin(), asked.end(), passed.begin()));
    RC_TAG("full");
  }
}

RC_GTEST_PROP(PromotionProperties, AfterAnyL3InTrafficTheIncumbentServes, ()) {
  const PromotionPolicy policy = PolicyOf(kSpec);
  for (const Taken& now : DrawSequence(policy, 80)) {
    const bool live = CandidateShare(policy, now.before) > 0;
    if (!live || now.event.kind != PromotionEventKind::kEvaluation) continue;
    if (now.event.evaluation.contract != now.before.candidate.contract) continue;
    const auto& rows = now.event.evaluation.clauses;
    const bool violated = std::any_of(rows.begin(), rows.end(), [](const ClauseFinding& row) {
      return row.level == ViolationLevel::kL3 && row.verdict == Verdict::kViolated;
    });
    if (!violated) continue;
    // Unless the deadline had frozen it a moment before, which leaves the share where it was.
    RC_ASSERT(CandidateShare(policy, now.result.state) == 0);
    RC_ASSERT(now.result.state.phase == Phase::kRolledBack);
    const auto& commands = now.result.commands;
    RC_ASSERT(std::any_of(commands.begin(), commands.end(), [](const Command& command) {
      return command.kind == CommandKind::kRoute && command.share == 0;
    }));
  }
}

RC_GTEST_PROP(PromotionProperties, FrozenNeverAdvances, ()) {
  const PromotionPolicy policy = PolicyOf(kSpec);
  for (const Taken& now : DrawSequence(policy, 80)) {
    if (now.before.phase != Phase::kFrozen) continue;
    const Phase after = now.result.state.phase;
    RC_ASSERT(after == Phase::kFrozen || after == now.before.frozen_from || IsOver(after));
    RC_ASSERT(now.result.state.step == now.before.step);
    RC_ASSERT(CandidateShare(policy, now.result.state) <= CandidateShare(policy, now.before));
  }
}

RC_GTEST_PROP(PromotionProperties, JsonReadsBackAndReplayGivesTheSameBytes, ()) {
  const PromotionPolicy policy = PolicyOf(kSpec);
  PromotionState replayed = testing::Proposed(policy);
  for (const Taken& now : DrawSequence(policy, 60)) {
    const std::string text = ToJson(now.result.state);
    const auto read = ReadPromotionState(text);
    RC_ASSERT(read.has_value());
    RC_ASSERT(*read == now.result.state);
    RC_ASSERT(ToJson(*read) == text);
    const auto event = ReadPromotionEvent(ToJson(now.event));
    RC_ASSERT(event.has_value());
    RC_ASSERT(*event == now.event);
    for (const Command& command : now.result.commands) {
      const auto again = ReadCommand(ToJson(command));
      RC_ASSERT(again.has_value() && *again == command);
    }
    for (const Transition& row : now.result.transitions) {
      const auto again = ReadTransition(ToJson(row));
      RC_ASSERT(again.has_value() && *again == row);
    }
    // From what was stored, by what was stored.
    const auto result = Step(policy, replayed, *event);
    RC_ASSERT(result.has_value());
    RC_ASSERT(ToJson(*result) == ToJson(now.result));
    replayed = *ReadPromotionState(ToJson(result->state));
  }
}

RC_GTEST_PROP(PromotionQueue, OnePromotionHoldsTheLane, ()) {
  const PromotionPolicy policy = PolicyOf(kSpec);
  std::vector<PromotionState> lane;
  for (int i = 0; i < 4; ++i) {
    lane.push_back(testing::Proposed(policy, "p-" + std::to_string(i),
                                     {"w", "t", "build-" + std::to_string(i), "contract", "", ""}));
  }
  for (int i = 0; i < 120; ++i) {
    const Turn turn = NextTurn(lane, "lane");
    RC_ASSERT(!turn.why.empty());
    if (turn.next != nullptr) {
      PromotionEvent start = Event(PromotionEventKind::kStart, turn.next->now_ms);
      start.incumbent = ServesNow(lane, "lane");
      const auto at = static_cast<size_t>(turn.next - lane.data());
      lane[at] = Step(policy, lane[at], start)->state;
    }
    const auto at = static_cast<size_t>(*rc::gen::inRange(0, 4));
    PromotionEvent event = DrawEvent(lane[at], {});
    if (event.kind != PromotionEventKind::kStart) lane[at] = Step(policy, lane[at], event)->state;
    RC_ASSERT(std::count_if(lane.begin(), lane.end(), HoldsLane) <= 1);
    RC_ASSERT(std::count_if(lane.begin(), lane.end(), [&](const PromotionState& state) {
                return CandidateShare(policy, state) > 0 && !state.settled;
              }) <= 1);
  }
}

}  // namespace
}  // namespace kcc
