// Sums in floating point, whatever the order (docs/math.md D.2).
//
// Each bound is a factor on sum|x_i| of the exact addends. Products of bf16, fp16 or fp8 operands
// are exact in fp32; where products round too, a dot product is one level higher.
#pragma once

#include <cstdint>

namespace kcc {

enum class Schedule {
  kAnyOrder,    // nothing is known
  kSequential,  // one accumulator
  kPairwise,    // a balanced tree
  kTiled,       // trees of `block` terms, accumulated one after the other (MMA k-tiles)
  kSplitK,      // `block` chunks summed apart and then together, each in sequence
};

// Height of the summation tree over n >= 1 terms.
int64_t TreeHeight(Schedule schedule, int64_t terms, int64_t block);

// gamma_h = h u/(1 - h u); +inf from h u >= 1.
double Gamma(int64_t height, double unit_roundoff);

// |computed - exact| <= factor * sum|x_i|. Any order: (n-1) u, with no restriction on n (Jeannerod
// and Rump 2013), n u where products round; a known tree: gamma_h.
double ReductionFactor(Schedule schedule, int64_t terms, int64_t block, double unit_roundoff,
                       bool products_round);

}  // namespace kcc
