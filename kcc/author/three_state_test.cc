// The three states, and that severities read the same way for every kind of clause.
#include "kcc/author/three_state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kcc/judge/severity.h"

namespace kcc {
namespace {

ClauseVerdict MakeClause(const std::string& metric, BoundKind bound, double threshold, double value,
                         bool violated) {
  ClauseVerdict clause;
  clause.id = "N-1";
  clause.metric = metric;
  clause.bound = bound;
  clause.verdict = violated ? Verdict::kViolated : Verdict::kSatisfied;
  SliceVerdict slice;
  slice.slice = "all";
  slice.threshold = threshold;
  slice.value = {value, value};
  slice.about.verdict = clause.verdict;
  clause.slices = {slice};
  return clause;
}

JudgedEvidence MakeEvidence(const std::string& name, bool conforming, double value,
                            std::optional<Verdict> verdict = {}) {
  JudgedEvidence evidence;
  evidence.name = name;
  evidence.conforming = conforming;
  evidence.judgement.clauses = {MakeClause("mean_kl", BoundKind::kAtMost, 0.1, value, value > 0.1)};
  evidence.judgement.verdict =
      verdict.value_or(value > 0.1 ? Verdict::kViolated : Verdict::kSatisfied);
  return evidence;
}

TEST(Severity, IsOneAtTheThresholdAndMoreBeyond) {
  struct Case {
    const char* metric;
    BoundKind bound;
    double threshold;
    double value;
    double severity;
  };
  const Case cases[] = {
      {"mean_kl", BoundKind::kAtMost, 0.1, 0.1, 1},
      {"mean_kl", BoundKind::kAtMost, 0.1, 0.05, 0.5},
      {"mean_kl", BoundKind::kAtMost, 0.1, 0.3, 3},
      {"mean_kl", BoundKind::kAtMost, 0, 0, 0},
      {"mean_kl", BoundKind::kAtMost, 0, 1e-9, INFINITY},
      {"mean_top5_overlap", BoundKind::kAtLeast, 0.98, 0.96, 2},
      {"mean_top5_overlap", BoundKind::kAtLeast, 0.98, 1, 0},
      {"throughput_tokens_per_s", BoundKind::kAtLeast, 100, 50, 2},
  };
  for (const Case& c : cases) {
    const ClauseVerdict clause = MakeClause(c.metric, c.bound, c.threshold, c.value, false);
    const auto severity = Severity(clause, clause.slices[0]);
    ASSERT_TRUE(severity.has_value()) << c.metric;
    if (std::isinf(c.severity)) {
      EXPECT_EQ(*severity, c.severity);
    } else {
      EXPECT_NEAR(*severity, c.severity, 1e-9) << c.metric << " " << c.value;
    }
  }
}

TEST(Severity, OfASoftClauseIsItsRateAgainstItsBudget) {
  ClauseVerdict clause = MakeClause("mean_kl", BoundKind::kAtMost, 0.1, 5, false);
  clause.hard = false;
  EXPECT_FALSE(Severity(clause, clause.slices[0]).has_value());
  clause.slices[0].exceedance = ExceedanceCount{100, 3, 0.02};
  EXPECT_NEAR(*Severity(clause, clause.slices[0]), 1.5, 1e-12);
}

TEST(Severity, OfWhatWasNotMeasuredIsUnknown) {
  ClauseVerdict clause = MakeClause("mean_kl", BoundKind::kAtMost, 0.1, NAN, false);
  EXPECT_FALSE(Severity(clause, clause.slices[0]).has_value());
}

TEST(ThreeStates, TheWeightiestOutcomeWins) {
  struct Case {
    std::vector<JudgedEvidence> evidence;
    ContractState state;
  };
  const Case cases[] = {
      {{MakeEvidence("good", true, 0.05), MakeEvidence("bad", false, 0.2)},
       ContractState::kTellsApart},
      {{MakeEvidence("good", true, 0.05)}, ContractState::kUntested},
      {{MakeEvidence("good", true, 0.05), MakeEvidence("bad", false, 0.06)},
       ContractState::kVacuous},
      {{MakeEvidence("good", true, 0.3), MakeEvidence("bad", false, 0.06)},
       ContractState::kRejectsConforming},
      {{MakeEvidence("good", true, 0.05), MakeEvidence("bad", false, 0.2),
        MakeEvidence("unclear", false, 0.09, Verdict::kInconclusive)},
       ContractState::kInconclusive},
      {{MakeEvidence("good", true, 0.3), MakeEvidence("broken", false, 0.2, Verdict::kError)},
       ContractState::kError},
  };
  for (const Case& c : cases) {
    const ThreeStateTest test = TestThreeStates(c.evidence);
    EXPECT_EQ(Name(test.state), Name(c.state)) << test.reason;
    EXPECT_EQ(test.evidence.size(), c.evidence.size());
  }
}

TEST(ThreeStates, ShowTheMarginOnBothSides) {
  const std::vector<JudgedEvidence> evidence = {
      MakeEvidence("a", true, 0.04), MakeEvidence("b", true, 0.05), MakeEvidence("c", false, 0.4),
      MakeEvidence("d", false, 0.2)};
  const ThreeStateTest test = TestThreeStates(evidence);
  EXPECT_NEAR(*test.headroom, 2, 1e-12);   // b is the closest
  EXPECT_NEAR(*test.rejection, 2, 1e-12);  // d would be the first to slip through
  ASSERT_EQ(test.pairs.size(), 1u);
  EXPECT_NEAR(*test.pairs[0].conforming, 0.5, 1e-12);
  EXPECT_NEAR(*test.pairs[0].violating, 4, 1e-12);
  EXPECT_EQ(test.pairs[0].rejects, 2);
}

}  // namespace
}  // namespace kcc
