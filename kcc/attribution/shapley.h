// Shapley shares of four sources from the sixteen corners: how much of v(all) - v(none) each source
// brings, averaged over the orders in which they can be switched on. v is the drift measured with a
// set of sources switched on, indexed by mask (bit i: source i).
//
// The shares add up to the total exactly, in floating point and in any order: corners and shares
// are put on one grid, 47 bits below the largest corner, on which sums do not round. What a source
// does alone is given beside; interaction is what the sources do together beyond their sum.
#pragma once

#include <array>
#include <cstddef>

namespace kcc {

inline constexpr size_t kShapleySources = 4;
inline constexpr size_t kCorners = 16;

struct ShapleyShares {
  std::array<double, kCorners> corners{};  // as measured, to 47 bits
  std::array<double, kShapleySources> share{};
  std::array<double, kShapleySources> alone{};  // v({i}) - v(none)
  double total = 0;
  double interaction = 0;  // total - sum of `alone`
};

ShapleyShares ShapleyOf(const std::array<double, kCorners>& measured);

}  // namespace kcc
