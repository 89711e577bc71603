// Every bound of kcc/bounds as a claim that a search can refute.
#pragma once

#include <vector>

#include "bench/bounds/logit_case.h"
#include "bench/bounds/report_case.h"
#include "bench/bounds/token_case.h"
#include "bench/bounds/tree_case.h"

namespace kcc::bench {

const std::vector<Claim<TokenCase>>& TokenClaims();  // one token: divergence, weights, consequence
const std::vector<Claim<LogitCase>>& LogitClaims();  // raw logits: norms, order
const std::vector<Claim<TreeCase>>& TreeClaims();    // sequences, by enumeration

// Every row that `implies` states of a clause and that `kcc bound` states of continuations, against
// a report in which the clause only just holds.
const std::vector<Claim<ReportCase>>& ReportClaims();
// What was stated once and is false: the search must find it out.
const std::vector<Claim<ReportCase>>& FalseReportClaims();

}  // namespace kcc::bench
