#include "kcc/bounds/reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kcc/base/check.h"
#include "kcc/bounds/rounding.h"

namespace kcc {
namespace {

int64_t CeilLog2(int64_t n) {
  return n <= 1 ? 0 : static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(n - 1)));
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int64_t TreeHeight(Schedule schedule, int64_t terms, int64_t block) {
  KCC_CHECK(terms >= 1);
  switch (schedule) {
    case Schedule::kAnyOrder:
    case Schedule::kSequential:
      return terms - 1;
    case Schedule::kPairwise:
      return CeilLog2(terms);
    case Schedule::kTiled: {
      KCC_CHECK(block >= 1);
      const int64_t tile = std::min(block, terms);
      return CeilDivide(terms, tile) - 1 + CeilLog2(tile);
    }
    case Schedule::kSplitK: {
      KCC_CHECK(block >= 1);
      const int64_t chunks = std::min(block, terms);
      return CeilDivide(terms, chunks) - 1 + chunks - 1;
    }
  }
  return terms - 1;
}

double Gamma(int64_t height, double unit_roundoff) {
  const double hu = static_cast<double>(height) * unit_roundoff;
  return hu >= 1 ? std::numeric_limits<double>::infinity() : RoundUp(hu / (1.0 - hu));
}

double ReductionFactor(Schedule schedule, int64_t terms, int64_t block, double unit_roundoff,
                       bool products_round) {
  const int64_t height = TreeHeight(schedule, terms, block) + (products_round ? 1 : 0);
  // The linear form is proved for sums in any order and so holds for every tree of that height.
  const double any_order =
      RoundUp(static_cast<double>(terms - (products_round ? 0 : 1)) * unit_roundoff);
  return std::fmin(any_order, Gamma(height, unit_roundoff));
}

}  // namespace kcc
