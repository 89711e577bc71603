// From what is tolerated back to the threshold that guarantees it (docs/math.md A.8).
//
// Every forward bound here rises with its argument, so its inverse is the largest double whose
// forward bound, outward rounding included, still fits the budget: found by bisection over the
// doubles themselves. Forward(Inverse(budget)) <= budget always, and the next double fails. That
// every smaller value is safe too follows from the bound itself being monotone and the computed
// one lying above it, whatever the last bits of the computed one do. An answer of +inf means that
// the budget holds without any threshold.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "kcc/base/check.h"

namespace kcc {

// The largest x in [0, limit] with forward(x) <= budget. Precondition: forward is non-decreasing
// and forward(0) <= budget.
template <class Forward>
double LargestWithin(double budget, Forward forward,
                     double limit = std::numeric_limits<double>::infinity()) {
  KCC_CHECK(budget >= 0 && forward(0.0) <= budget);
  if (forward(limit) <= budget) return limit;
  // Non-negative doubles are ordered as their bit patterns.
  auto low = std::bit_cast<uint64_t>(0.0);
  auto high = std::bit_cast<uint64_t>(limit);
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (forward(std::bit_cast<double>(middle)) <= budget ? low : high) = middle;
  }
  return std::bit_cast<double>(low);
}

// A lower bound on every real x whose bound reaches `target`: the last double before
// forward(x) >= target first holds. What evidence of size `target` implies about x.
template <class Forward>
double LeastReaching(double target, Forward forward) {
  KCC_CHECK(target >= 0);
  if (forward(0.0) >= target) return 0;
  auto low = std::bit_cast<uint64_t>(0.0);
  auto high = std::bit_cast<uint64_t>(std::numeric_limits<double>::infinity());
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (forward(std::bit_cast<double>(middle)) >= target ? high : low) = middle;
  }
  return std::bit_cast<double>(low);
}

}  // namespace kcc
