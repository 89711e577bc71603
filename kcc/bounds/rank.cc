#include "kcc/bounds/rank.h"

#include <algorithm>

#include "kcc/base/check.h"

namespace kcc {

bool OrderCertain(double margin, double span) { return margin > span; }

double TopKOverlapFloor(std::span<const double> descending, size_t k, double span) {
  KCC_CHECK(k > 0 && std::is_sorted(descending.rbegin(), descending.rend()));
  if (descending.size() <= k) return 1;
  const double rival = descending[k];
  const auto kept = std::count_if(descending.begin(), descending.begin() + static_cast<long>(k),
                                  [&](double z) { return OrderCertain(z - rival, span); });
  return static_cast<double>(kept) / static_cast<double>(k);
}

}  // namespace kcc
