// What a forecast of requests means for whoever has to wait for them: how long that takes at the
// rate of the evidence, and how many another form of the clause would need.
#pragma once

#include <cstdint>
#include <string>

#include "kcc/contract/contract.h"
#include "kcc/judge/facts.h"
#include "kcc/judge/traffic.h"
#include "kcc/summary/summary.h"

namespace kcc {

// How many requests certify the soft form by request that contracts ask for most, and its words;
// empty: no number does. For what no sample certifies otherwise.
std::string TheFormByRequest(double alpha, Looks looks);

// The words after "about N more requests in slice S would settle it"; empty where there is nothing
// to add. The rate is of all timed requests of the slice, by what infer recorded: from the first
// start to the last end. `alpha`: 1 - confidence.
std::string WhatMoreRequestsMean(const Clause& clause, const Facts& facts, const SliceStats& slice,
                                 int64_t more, double alpha, Looks looks);

}  // namespace kcc
