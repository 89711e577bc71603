// Many clauses on many slices: which refutations survive (docs/math.md C.5).
//
// PASS needs none of this: promotion asks all clauses to pass, an intersection-union test. FAIL
// alarms ask whether any clause failed, and are controlled here. Answers are in the order of the
// input; a NaN is no evidence and is never rejected.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kcc {

// Holm's step-down on p-values: familywise error <= alpha under any dependence.
std::vector<bool> HolmRejects(std::span<const double> p_values, double alpha);

// e-BH on natural logarithms of e-values: rejects the k* largest, k* = max{k : e_(k) >= m/(alpha
// k)}; false discovery rate <= alpha under any dependence.
std::vector<bool> EBenjaminiHochbergRejects(std::span<const double> log_e_values, double alpha);

// The level of the j-th test (j = 1, 2, ...) of an open-ended series: 6 alpha/(pi^2 j^2), which sum
// to alpha. Precondition: j >= 1.
double SpentAlpha(double alpha, int64_t j);

// ln of the mean of e-values: an e-value whatever their dependence. Precondition: not empty.
double LogMeanE(std::span<const double> log_e_values);

}  // namespace kcc
