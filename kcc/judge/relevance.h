// Whether evidence is about what the contract speaks of, and whose word it rests on. What the
// judged side says alone never makes a clause satisfied unnoticed (docs/semantics.md).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"
#include "kcc/summary/summary.h"

namespace kcc {

struct Relevance {
  std::string mismatch;  // it is about something else: no verdict means anything
  std::string unstated;  // it may be: nothing is satisfied by it
};
Relevance RelevanceOf(const Contract& contract, const Summary& summary);

// Why the clause cannot be satisfied on the slice: what it selects, or how its windows are cut,
// rests on a field that infer alone recorded and that the contract does not trust. Empty: nothing
// of the kind. `index`: of the slice in the summary's plan; none: it is not there.
std::string UnvouchedBy(const Contract& contract, const Summary& summary, const Clause& clause,
                        const Slice& slice, std::optional<size_t> index);

// What a reader of the verdicts must know, in words: what holds although it rests on infer's word
// alone, premises that the evidence breaches, and two sides that are one (same_sides.h).
std::vector<std::string> WarningsOf(const Contract& contract, const Summary& summary,
                                    const Judgement& judgement);

}  // namespace kcc
