// The three-state test of a contract: it must accept evidence known to conform, reject evidence
// known to violate, and keep a margin on both sides. A contract that accepts both is vacuous: it
// tells nobody anything, however green its reports are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/judge/verdict.h"

namespace kcc {

// Evidence whose state is known beforehand, judged.
struct JudgedEvidence {
  std::string name;  // as the user named it
  bool conforming = false;
  Judgement judgement;
};

enum class ContractState : uint8_t {
  kTellsApart,         // accepts the one and rejects the other
  kUntested,           // accepts conforming evidence; there was none to reject
  kInconclusive,       // the evidence does not decide
  kVacuous,            // accepts violating evidence
  kRejectsConforming,  // too strict, or the evidence is not what it was taken for
  kError,              // broken evidence
};
std::string_view Name(ContractState state);  // "calibrated" where it tells them apart

struct EvidenceState {
  std::string name;
  bool conforming = false;
  Verdict verdict = Verdict::kInconclusive;
  // The clause-slice pair of the largest severity.
  std::string clause;
  std::string slice;
  std::optional<double> severity;
};

// One clause on one slice, over all evidence.
struct PairState {
  std::string clause;
  std::string metric;
  std::string slice;
  BoundKind bound = BoundKind::kAtMost;
  double threshold = 0;
  std::optional<double> conforming;  // largest severity of conforming evidence
  std::optional<double> violating;   // of violating evidence
  int64_t rejects = 0;               // violating evidence that it rejects
  int64_t rejects_conforming = 0;
};

struct ThreeStateTest {
  ContractState state = ContractState::kInconclusive;
  std::string reason;  // one sentence
  std::vector<EvidenceState> evidence;
  std::vector<PairState> pairs;  // in the contract's order
  // Thresholds could be this many times tighter before conforming evidence is rejected …
  std::optional<double> headroom;
  // … and this many times looser before violating evidence is accepted. Above 1: a margin.
  std::optional<double> rejection;
};

// Precondition: judgements of one contract, in one stage.
ThreeStateTest TestThreeStates(std::span<const JudgedEvidence> evidence);

}  // namespace kcc
