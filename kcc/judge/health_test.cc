// The property of section 8: health tells the level of the worst violation, whatever else holds.
#include "kcc/judge/health.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>

namespace kcc {
namespace {

TEST(Deviation, IsOnePlusTheRelativeExcessCappedAtTwo) {
  const double inf = std::numeric_limits<double>::infinity();
  const struct {
    double excess, limit, deviation;
  } rows[] = {{0.5, 2, 1.25}, {2, 2, 2},       {9, 2, 2},     {inf, 2, 2},         {0.001, 0, 2},
              {0, 0, 2},      {0.5, -2, 1.25}, {-0.25, 1, 1}, {std::nan(""), 1, 2}};
  for (const auto& row : rows) {
    EXPECT_EQ(Deviation(row.excess, row.limit), row.deviation) << row.excess << " " << row.limit;
  }
}

Judgement AnyVerdicts() {
  Judgement judgement;
  judgement.clauses.resize(*rc::gen::inRange<size_t>(1, 12));
  for (ClauseVerdict& clause : judgement.clauses) {
    clause.level = static_cast<ViolationLevel>(*rc::gen::inRange(0, 3));
    clause.action = static_cast<Action>(*rc::gen::inRange(0, 5));
    clause.slices.resize(*rc::gen::inRange<size_t>(1, 6));
    for (SliceVerdict& slice : clause.slices) {
      slice.about.verdict = static_cast<Verdict>(*rc::gen::inRange(0, 4));
      const double excess = *rc::gen::inRange(0, 3000) / 1000.0;
      const bool violated = slice.verdict() == Verdict::kViolated;
      slice.deviation = violated ? Deviation(excess, *rc::gen::element(0.0, 0.5, 1.0)) : 0;
    }
  }
  return judgement;
}

TEST(Health, SaysWhichLevelIsViolatedAndTheActionIsThatOfTheWorst) {
  EXPECT_TRUE(rc::check("health", [] {
    Escalation escalation;
    escalation.on_inconclusive = static_cast<Action>(*rc::gen::inRange(0, 5));
    escalation.on_error = static_cast<Action>(*rc::gen::inRange(0, 5));
    Judgement judgement = AnyVerdicts();
    Conclude(escalation, &judgement);

    std::optional<Action> action;
    const auto order = [&](Action ordered) {
      action = std::max(action.value_or(ordered), ordered);
    };
    bool level_violated[3] = {false, false, false};
    Verdict worst = Verdict::kSatisfied;
    for (const ClauseVerdict& clause : judgement.clauses) {
      for (const SliceVerdict& slice : clause.slices) {
        worst = std::max(worst, slice.verdict());
        if (slice.verdict() == Verdict::kViolated) {
          level_violated[static_cast<size_t>(clause.level)] = true;
          order(clause.action);
        }
        if (slice.verdict() == Verdict::kInconclusive) order(escalation.on_inconclusive);
        if (slice.verdict() == Verdict::kError) order(escalation.on_error);
      }
    }
    const bool l2 = level_violated[1];
    const bool l3 = level_violated[2];
    const double h = judgement.health;
    RC_ASSERT((h < judgement.eta1) == (!l2 && !l3));
    RC_ASSERT((judgement.eta1 <= h && h < judgement.eta2) == (l2 && !l3));
    RC_ASSERT((h >= judgement.eta2) == l3);
    RC_ASSERT(judgement.action == action);
    RC_ASSERT(judgement.verdict == worst);
    RC_ASSERT(judgement.convergent == (worst == Verdict::kSatisfied));
  }));
}

TEST(Health, AHardViolationIsNeverAveragedAway) {
  EXPECT_TRUE(rc::check("one among many", [] {
    Judgement judgement;
    judgement.clauses.resize(*rc::gen::inRange<size_t>(1, 200));
    for (ClauseVerdict& clause : judgement.clauses) {
      clause.level = ViolationLevel::kL2;
      clause.slices.resize(*rc::gen::inRange<size_t>(1, 20));
      for (SliceVerdict& slice : clause.slices) slice.about.verdict = Verdict::kSatisfied;
    }
    ClauseVerdict& hard = judgement.clauses.back();
    hard.level = ViolationLevel::kL3;
    hard.action = Action::kRollback;
    hard.slices.back().about.verdict = Verdict::kViolated;
    hard.slices.back().deviation = 1;
    Conclude({}, &judgement);
    RC_ASSERT(judgement.verdict == Verdict::kViolated);
    RC_ASSERT(judgement.action == Action::kRollback);
    RC_ASSERT(judgement.health >= judgement.eta2);
  }));
}

}  // namespace
}  // namespace kcc
