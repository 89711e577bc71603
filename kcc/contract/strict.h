// What is asked of a contract that others will rely on, beyond being valid: `kcc check --strict`.
#pragma once

#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/contract/diagnostic.h"

namespace kcc {

// Warnings: clauses of level L2 and L3 that do not say why ("no-why"), and a contract that nobody
// has to look at again ("no-review-date"). In the order of the text, the whole document last.
std::vector<Diagnostic> CheckStrictly(const Contract& contract);

}  // namespace kcc
