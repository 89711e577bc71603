// Every bound of kcc/bounds as a claim that a search can refute.
#pragma once

#include <vector>

#include "bench/bounds/logit_case.h"
#include "bench/bounds/token_case.h"
#include "bench/bounds/tree_case.h"

namespace kcc::bench {

const std::vector<Claim<TokenCase>>& TokenClaims();  // one token: divergence, weights, consequence
const std::vector<Claim<LogitCase>>& LogitClaims();  // raw logits: norms, order
const std::vector<Claim<TreeCase>>& TreeClaims();    // sequences, by enumeration

}  // namespace kcc::bench
