// Checks that need the whole contract: contradictions, clauses that never decide, what cannot
// be certified about traffic, slices nobody uses.
#pragma once

#include <vector>

#include "kcc/contract/clause_reader.h"

namespace kcc {

// `contract` holds everything but the clauses.
void CheckContract(const Contract& contract, const std::vector<ClauseDraft>& clauses,
                   const SliceIndex& slices, Problems* problems);

}  // namespace kcc
