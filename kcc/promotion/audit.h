// From a contract and a judgement to what the machine reads, and the audit that clean requests are
// counted in.
#pragma once

#include <string>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"
#include "kcc/promotion/promotion.h"

namespace kcc {

// Every clause of the contract, with the reason where no sample of traffic certifies it.
std::vector<AskedClause> AskedOf(const Contract& contract);

// The contract to measure and judge by, beside the contract itself, where clean requests are to be
// counted: each hard clause that no sample certifies and that has a value per request, as a soft
// clause by request with the same id, metric, threshold and slices. Its exceedances are the
// requests that are not clean.
Contract AuditContract(const Contract& contract);

// What is known of the evidence beside its verdicts.
struct EvidenceFacts {
  std::string digest;
  std::string continues;
  int64_t requests = 0;
  std::string contract;   // digest
  double look_alpha = 0;  // of the planned look that it was judged at; 0: it was not
};

// The look that the stage planned at this size, if it is still left after `used` of them; null:
// none.
const Look* PlannedLookAt(const StagePolicy& stage, int64_t used, int64_t requests);

// `audit`: the judgement of the same evidence under AuditContract; null where there is none. A
// request counts as audited only where nothing of the clause is missing from the evidence. What the
// judge tests by: facts where it speaks of the evaluation set, one look offline, any time later.
Evaluation EvaluationOf(const Contract& contract, const Judgement& judgement,
                        const Judgement* audit, const EvidenceFacts& facts);

// Adds the incumbent's verdicts on the same evidence, clause by clause.
void AddIncumbent(const Judgement& incumbent, Evaluation* evaluation);

// Adds the verdicts under the contract that is to be replaced.
void AddUnderOld(const Contract& old_contract, const Judgement& judgement,
                 const std::string& digest, Evaluation* evaluation);

}  // namespace kcc
