// Population quantities that are shares, as the counts behind them: what exact verdicts and the
// tests about traffic need.
#pragma once

#include <optional>

#include "kcc/contract/contract.h"
#include "kcc/judge/facts.h"
#include "kcc/summary/summary.h"

namespace kcc {

// Units and those that are bad; `allowed` is left at 0. None if the quantity is not a share, or the
// summary lacks the clause's fields.
std::optional<UnitCounts> BadShare(const Clause& clause, const Summary& summary, size_t slice);

// The counts of a gap between two flags of the same requests; null for another quantity.
const PairedFlagCounts* PairedFlags(const Clause& clause, const SliceStats& stats);

}  // namespace kcc
