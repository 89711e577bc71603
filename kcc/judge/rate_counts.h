// Population quantities that are shares, as the counts behind them: what exact verdicts and the
// tests about traffic need.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/judge/facts.h"
#include "kcc/summary/summary.h"

namespace kcc {

// Units and those that are bad; `allowed` is left at 0. None if the quantity is not a share, or the
// summary lacks the clause's fields.
std::optional<UnitCounts> BadShare(const Clause& clause, const Summary& summary, size_t slice);

// What the requests of a slice carry of a coverage clause's fields; null for another clause, or
// where the summary lacks the clause's fields. `lacking` is by place in SortedFields.
const CoverageCounts* CoverageOf(const Clause& clause, const Summary& summary, size_t slice);
std::vector<std::string> SortedFields(const Clause& clause);

// The counts of a gap between two flags of the same requests; null for another quantity.
const PairedFlagCounts* PairedFlags(const Clause& clause, const SliceStats& stats);

}  // namespace kcc
