#include "kcc/author/three_state.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/base/constants.h"
#include "kcc/judge/severity.h"

namespace kcc {
namespace {

void Raise(const std::optional<double>& value, std::optional<double>* most) {
  if (value && (!*most || *value > **most)) *most = value;
}

EvidenceState StateOf(const JudgedEvidence& evidence) {
  EvidenceState state;
  state.name = evidence.name;
  state.conforming = evidence.conforming;
  state.verdict = evidence.judgement.verdict;
  for (const ClauseVerdict& clause : evidence.judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      const auto severity = Severity(clause, slice);
      if (!severity || (state.severity && *severity <= *state.severity)) continue;
      state.severity = severity;
      state.clause = clause.id;
      state.slice = slice.slice;
    }
  }
  return state;
}

void AddPairs(const JudgedEvidence& evidence, std::vector<PairState>* pairs) {
  size_t at = 0;
  for (const ClauseVerdict& clause : evidence.judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      if (at == pairs->size()) {
        PairState pair;
        pair.clause = clause.id;
        pair.metric = clause.metric;
        pair.slice = slice.slice;
        pair.bound = clause.bound;
        pair.threshold = slice.threshold;
        pairs->push_back(pair);
      }
      PairState& pair = (*pairs)[at++];
      KCC_CHECK(pair.clause == clause.id && pair.slice == slice.slice);
      Raise(Severity(clause, slice), evidence.conforming ? &pair.conforming : &pair.violating);
      if (slice.verdict() != Verdict::kViolated) continue;
      ++(evidence.conforming ? pair.rejects_conforming : pair.rejects);
    }
  }
}

// The weightiest outcome, and the evidence that made it.
void Decide(ThreeStateTest* test) {
  test->state = ContractState::kTellsApart;
  test->reason = "Every conforming evidence is accepted and every violating one rejected.";
  const auto outweigh = [&](ContractState state, std::string reason) {
    if (state <= test->state) return;
    test->state = state;
    test->reason = std::move(reason);
  };
  const auto violating = [](const EvidenceState& row) { return !row.conforming; };
  if (std::none_of(test->evidence.begin(), test->evidence.end(), violating)) {
    outweigh(ContractState::kUntested,
             "Every conforming evidence is accepted; none was given that must be rejected.");
  }
  for (const EvidenceState& row : test->evidence) {
    const std::string name = "'" + row.name + "'";
    switch (row.verdict) {
      case Verdict::kError:
        outweigh(ContractState::kError, "The evidence " + name + " is broken.");
        break;
      case Verdict::kInconclusive:
        outweigh(ContractState::kInconclusive, "The evidence " + name + " does not decide.");
        break;
      case Verdict::kViolated:
        if (!row.conforming) break;
        outweigh(ContractState::kRejectsConforming, "The conforming evidence " + name +
                                                        " is rejected, by " + row.clause + " on " +
                                                        row.slice + ".");
        break;
      case Verdict::kSatisfied:
        if (row.conforming) break;
        outweigh(ContractState::kVacuous, "It accepts the violating evidence " + name + " too.");
        break;
    }
  }
}

}  // namespace

std::string_view Name(ContractState state) {
  constexpr std::array<std::string_view, 6> kNames = {
      "calibrated", "untested", "inconclusive", "vacuous", "rejects-conforming", "error"};
  return kNames[static_cast<size_t>(state)];
}

ThreeStateTest TestThreeStates(std::span<const JudgedEvidence> evidence) {
  ThreeStateTest test;
  std::optional<double> conforming;
  for (const JudgedEvidence& row : evidence) {
    test.evidence.push_back(StateOf(row));
    AddPairs(row, &test.pairs);
    const EvidenceState& state = test.evidence.back();
    if (row.conforming) {
      Raise(state.severity, &conforming);
    } else if (state.severity && (!test.rejection || *state.severity < *test.rejection)) {
      test.rejection = state.severity;
    }
  }
  if (conforming) test.headroom = *conforming == 0 ? kInf : 1 / *conforming;
  Decide(&test);
  return test;
}

}  // namespace kcc
