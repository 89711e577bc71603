#include "kcc/train/exact_tally.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace kcc {

uint64_t UlpDistance(float a, float b) {
  const auto x = std::bit_cast<uint32_t>(a);
  const auto y = std::bit_cast<uint32_t>(b);
  if (x == y) return 0;
  if (std::isnan(a) || std::isnan(b) || a == b) return std::numeric_limits<uint64_t>::max();
  // Bits of floats of one sign are in the order of their magnitudes.
  const auto place = [](uint32_t bits) {
    const auto magnitude = static_cast<int64_t>(bits & 0x7fffffffu);
    return bits >> 31 == 0 ? magnitude : -magnitude;
  };
  return static_cast<uint64_t>(std::abs(place(x) - place(y)));
}

void ExactTally::Add(float rollout, float trainer, bool same_row) {
  ++tokens;
  if (!same_row) ++unequal_rows;
  const uint64_t distance = UlpDistance(rollout, trainer);
  if (distance == 0) return;
  ++unequal;
  ++ulps[std::min<size_t>(kUlpBuckets - 1, static_cast<size_t>(std::bit_width(distance)) - 1)];
  const double gap = std::fabs(static_cast<double>(rollout) - static_cast<double>(trainer));
  largest = std::max(largest, std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap);
}

void ExactTally::Merge(const ExactTally& other) {
  tokens += other.tokens;
  unequal += other.unequal;
  unequal_rows += other.unequal_rows;
  for (size_t i = 0; i < kUlpBuckets; ++i) ulps[i] += other.ulps[i];
  largest = std::max(largest, other.largest);
}

}  // namespace kcc
