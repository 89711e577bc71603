// Stored evidence for blame_report.cc: which evaluations there are of a model on a pair of kernels,
// their summaries, and what they say under a contract. Private to register/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/promotion/promotion.h"
#include "kcc/register/blame.h"
#include "kcc/register/register.h"
#include "kcc/summary/summary.h"

namespace kcc {

struct StoredEvidence {
  int64_t sequence = 0;
  std::string evaluation;  // id; empty: joined evidence of a promotion
  Stage stage = Stage::kOffline;
  std::optional<Summary> summary;  // none: it is no longer stored
};

// Whether both are the same model on the same two kernels.
bool SamePair(const Deployment& a, const Deployment& b);

// All evaluations of a model on a pair of kernels, under whatever contract, the newest first.
Result<std::vector<StoredEvidence>> EvidenceOfPair(Register& source, const Deployment& pair);

// What a promotion's last look was at, where its log names it and it is still stored.
Result<std::optional<StoredEvidence>> JoinedEvidence(Register& source,
                                                     const std::string& promotion);

// The contract that blame judges by, without what it binds; none where its text is not stored.
Result<std::optional<Contract>> BlamedContract(Register& source, const std::string& digest);

// A fact about the requests of the summary, clause by clause. No contract, or no summary: removed.
BlameCell JudgeForBlame(const std::optional<Contract>& contract, const StoredEvidence& evidence,
                        Stage stage);

}  // namespace kcc
