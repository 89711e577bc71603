// A contract in the training loop: the scored tokens of each step are measured and judged as
// `kcc rl judge` judges the same arrays, and violated clauses give orders.
//
// Of the actions of the contract's escalation, `guard` withholds the step's update, and `freeze`,
// `fallback` and `rollback` end the training: there is no other kernel inside a step. What is
// inconclusive orders nothing: that a step cannot show a clause to hold is no reason not to train.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"
#include "kcc/rl/dump.h"
#include "kcc/summary/plan.h"

namespace kcc {

struct StepClause {
  std::string id, slice, metric;
  Verdict verdict = Verdict::kInconclusive;
  Interval value;
};

struct StepJudgement {
  Verdict verdict = Verdict::kInconclusive;
  double health = 0;
  // The most severe that a violated clause orders; none: no clause is violated.
  std::optional<Action> order;
  std::string violated;  // the clauses that are, "N-1 on all, N-2 on all"
  std::vector<StepClause> clauses;

  bool withholds() const { return order && *order >= Action::kGuard; }
  bool stops() const { return order && *order >= Action::kFreeze; }
};

class ContractWatch {
 public:
  ContractWatch(Contract contract, std::string train_fingerprint, std::string infer_fingerprint);

  // Fails where the arrays cannot be measured.
  Result<StepJudgement> Judge(const RlDump& dump) const;
  const Contract& contract() const { return contract_; }

 private:
  Contract contract_;
  Plan plan_;
  std::string train_fingerprint_, infer_fingerprint_;
};

}  // namespace kcc
