// Checks that need the whole contract: contradictions, clauses that never decide, what cannot
// be certified about traffic, slices and metrics nobody uses.
#pragma once

#include <vector>

#include "kcc/contract/clause_reader.h"

namespace kcc {

// `contract` holds everything but the clauses; `own_names` are the nodes of its own metrics' names.
void CheckContract(const Contract& contract, const std::vector<ClauseDraft>& clauses,
                   const SliceIndex& slices, const std::vector<const YamlNode*>& own_names,
                   Problems* problems);

}  // namespace kcc
