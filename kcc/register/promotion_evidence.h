// From an evaluation in the register to what a promotion counts. Private to register/.
//
// The recorded verdicts are not believed: the stored summary is judged again. In shadow, canary and
// full every look of a step must be at one growing body of evidence. Summaries that share no
// request are joined with what the step has; one that holds everything the step has takes its
// place; any other is handed on as evidence that does not continue the step's, which the machine
// does not count. A step keeps the plan of its first evidence: what was measured by a wider one is
// restricted to it.
#pragma once

#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/promotion/promotion.h"
#include "kcc/register/promotions.h"

namespace kcc {

struct StepEvidence {
  Evaluation evaluation;
  std::string joined;  // bytes of the summary it is of, where that is not the recorded one
  std::string remark;  // what is to be said of it beside the machine's note; may be empty
};

Result<StepEvidence> EvidenceOf(Register& source, const KeptPromotion& kept, const Entry& recorded);

// The contract of the register with this digest, read from its stored text.
Result<Contract> ReadKeptContract(Register& source, const std::string& digest);

// Digests of the contracts that evidence recorded for this one is judged under too: those that a
// promotion of the register sets beside it, as the incumbent's or the candidate's. Sorted.
Result<std::vector<std::string>> ContractsToCompare(Register& source, const std::string& digest);

// A contract that is measured by where promotions count clean requests: the contract's own clauses
// and those of AuditContract. What a summary keeps follows from it; verdicts do not.
Contract MeasuredContract(const Contract& contract);

}  // namespace kcc
