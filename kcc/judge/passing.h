// For a violated clause: the tightest threshold that would have passed, and the tightest budget.
#pragma once

#include <optional>

#include "kcc/judge/facts.h"

namespace kcc {

struct Passing {
  std::optional<double> threshold;
  std::optional<double> budget;  // soft clauses: the share of windows seen beyond the threshold
};

// Of the evidence itself. Percentiles and windows come from the histogram as the bucket edge on the
// safe side, within 2^-7 of the true value; means, extremes, rates and population values are exact.
Passing WouldHavePassed(const Clause& clause, const Facts& facts, FactReader* reader);

}  // namespace kcc
