// One clause against its earlier self, and what all diffs make changes with. Internal to the diffs.
#pragma once

#include <vector>

#include "kcc/contract/diff.h"

namespace kcc {

// A clause where it stands: what it inherits is the contract's.
struct ClauseInContract {
  const Contract& contract;
  const Clause& clause;
};

// Everything but the id. What a changed slice, decision or escalation does to the clause is
// reported with that slice, decision or escalation, not here.
std::vector<Change> DiffClause(const ClauseInContract& before, const ClauseInContract& after);

// The slice's predicate in canonical form; "" for everything.
std::string SliceMeaning(const Slice& slice);

// "raised from 1 to 2" as a change that loosens if `looser`.
Change MakeChange(bool looser, std::string where, std::string what);
Change MakeNote(std::string where, std::string what);
std::string FromTo(std::string_view before, std::string_view after);
// Looser changes first, then by where; otherwise in the order in which they were found.
void SortChanges(std::vector<Change>* changes);

}  // namespace kcc
