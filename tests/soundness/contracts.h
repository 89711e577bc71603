// Random contracts for the soundness tests: any metric of the catalog or of the contract's own,
// hard and soft, on slices of requests, outcomes and tokens.
#pragma once

#include <optional>
#include <string>

#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"
#include "tests/soundness/evidence.h"

namespace kcc::soundness {

struct ContractOptions {
  std::optional<double> temperature;  // that it assumes; none: 1
  // Leaves out clauses about what one side alone records of its own run: see judged_side_test.cc.
  bool about_pairs = false;
  bool trust = false;  // may believe fields that infer alone has
  bool binds = false;  // may bind what infer declares
  int clauses = 6;
};

struct DrawnContract {
  std::string yaml;
  Contract contract;
};

DrawnContract MakeContract(Dice* dice, const ContractOptions& options);

// The same contract with thresholds that the evidence just misses: what moves a value a little then
// decides. Clauses whose value is not known, or that would not be legal, stay as they are.
DrawnContract Tightened(const DrawnContract& drawn, const Judgement& judgement, Dice* dice);

}  // namespace kcc::soundness
