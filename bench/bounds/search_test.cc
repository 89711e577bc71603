// The search in small: no counterexample to any bound, every tight one nearly reached; and the
// search itself put to the test: each tight bound, made 1 % smaller, is refuted.
#include <gtest/gtest.h>

#include "bench/bounds/claims.h"

namespace kcc::bench {
namespace {

SearchOptions Small() {
  SearchOptions options;
  options.random_cases = 4000;
  options.ascents = 40;
  options.ascent_steps = 150;
  options.seed = 20;
  return options;
}

template <class Case>
void ExpectSound(const std::vector<Claim<Case>>& claims, const SearchOptions& options = Small()) {
  for (const Finding& f : Search(claims, options)) {
    EXPECT_EQ(f.violations, 0) << f.name << " (" << f.statement << ") at " << f.violation_at;
    if (f.tight) {
      EXPECT_GE(f.best_everyday, 0.99) << f.name << " is claimed tight";
    }
  }
}

// No source is patched: the claim's bound is multiplied on its way into the search.
template <class Case>
void ExpectMutantsFound(std::vector<Claim<Case>> claims, SearchOptions options = Small()) {
  options.scale = 0.99;
  options.until_refuted = true;
  std::erase_if(claims, [](const Claim<Case>& claim) { return !claim.tight; });
  ASSERT_FALSE(claims.empty());
  for (const Finding& f : Search(claims, options)) {
    EXPECT_GT(f.violations, 0) << f.name << " times 0.99 survives the search";
  }
}

TEST(BoundSearch, FindsNoCounterexampleForOneToken) { ExpectSound(TokenClaims()); }
TEST(BoundSearch, FindsNoCounterexampleForNormsAndOrder) { ExpectSound(LogitClaims()); }
TEST(BoundSearch, FindsNoCounterexampleForSequences) { ExpectSound(TreeClaims()); }

// What clauses imply and what is stated of continuations, against reports that were measured.
SearchOptions SmallReports() {
  SearchOptions options = Small();
  options.random_cases = 2000;
  options.ascents = 10;
  return options;
}

TEST(BoundSearch, FindsNoReportThatBreaksWhatItsClausesImply) {
  ExpectSound(ReportClaims(), SmallReports());
}
TEST(BoundMutation, EveryTightImplicationTimes099IsRefuted) {
  ExpectMutantsFound(ReportClaims(), SmallReports());
}
TEST(BoundMutation, WhatWasOnceStatedFalselyIsRefuted) {
  for (const Finding& f : Search(FalseReportClaims(), SmallReports())) {
    EXPECT_GT(f.violations, 0) << f.name << " (" << f.statement << ") survives the search";
    EXPECT_GT(f.best, 1.02) << f.name;
  }
}

TEST(BoundMutation, EveryTightTokenBoundTimes099IsRefuted) { ExpectMutantsFound(TokenClaims()); }
TEST(BoundMutation, EveryTightNormBoundTimes099IsRefuted) { ExpectMutantsFound(LogitClaims()); }
TEST(BoundMutation, EveryTightSequenceBoundTimes099IsRefuted) { ExpectMutantsFound(TreeClaims()); }

}  // namespace
}  // namespace kcc::bench
