#include "kcc/attribution/shapley.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kcc {
namespace {

// |S|! (3 - |S|)! / 4!, times 12: whole numbers.
constexpr std::array<double, 4> kWeights = {3, 1, 1, 3};

double RawShare(const std::array<double, kCorners>& v, size_t source) {
  double sum = 0;
  for (unsigned mask = 0; mask < kCorners; ++mask) {
    if ((mask >> source) & 1u) continue;
    const auto size = static_cast<size_t>(std::popcount(mask));
    sum += kWeights[size] * (v[mask | (1u << source)] - v[mask]);
  }
  return sum / 12;
}

// One grid for the corners, 47 bits below the largest: sums and differences on it are exact.
double GridOf(const std::array<double, kCorners>& v) {
  double most = 0;
  for (const double value : v) most = std::max(most, std::fabs(value));
  return most == 0 || !std::isfinite(most) ? 0 : std::ldexp(1.0, std::ilogb(most) - 46);
}

double OnGrid(double value, double grid) {
  return grid == 0 ? value : std::nearbyint(value / grid) * grid;
}

// Shares on the grid; the largest gets what is left of the total.
void MakeExact(double grid, ShapleyShares* s) {
  size_t largest = 0;
  double others = 0;
  for (size_t i = 0; i < kShapleySources; ++i) {
    s->share[i] = OnGrid(s->share[i], grid);
    if (std::fabs(s->share[i]) > std::fabs(s->share[largest])) largest = i;
  }
  for (size_t i = 0; i < kShapleySources; ++i) {
    if (i != largest) others += s->share[i];
  }
  s->share[largest] = s->total - others;
}

}  // namespace

ShapleyShares ShapleyOf(const std::array<double, kCorners>& measured) {
  ShapleyShares made;
  const double grid = GridOf(measured);
  for (size_t i = 0; i < kCorners; ++i) made.corners[i] = OnGrid(measured[i], grid);
  made.total = made.corners[kCorners - 1] - made.corners[0];
  double alone = 0;
  for (size_t i = 0; i < kShapleySources; ++i) {
    made.share[i] = RawShare(made.corners, i);
    made.alone[i] = made.corners[size_t{1} << i] - made.corners[0];
    alone += made.alone[i];
  }
  MakeExact(grid, &made);
  made.interaction = made.total - alone;
  return made;
}

}  // namespace kcc
