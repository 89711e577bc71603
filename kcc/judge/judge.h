// The judge: a pure function from a contract and a summary to verdicts, health and action. No
// files, no clock, no randomness: the same evidence gives the same judgement.
//
// docs/semantics.md states every rule with an example.
#pragma once

#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"
#include "kcc/summary/summary.h"

namespace kcc {

struct JudgeOptions {
  Stage stage = Stage::kOffline;
  // Overrides the contract's decision.about and the stage's default.
  std::optional<Population> about;
  // A look at growing evidence at a size that was fixed in advance: tests for one look, each of
  // which spends `share` of its clause's error and `alpha` at most. None: tests that hold however
  // often one looks, but for offline, where one looks once.
  struct PlannedLook {
    double alpha = 0;
    double share = 0;
  };
  std::optional<PlannedLook> look = {};
};

Judgement Judge(const Contract& contract, const Summary& summary, const JudgeOptions& options = {});

}  // namespace kcc
