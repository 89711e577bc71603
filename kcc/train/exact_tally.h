// Pairs of floats that ought to have the same bits, counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kcc {

// How many floats lie between two, counting the way from one to the other: 0 for the same bits, 1
// for neighbours. The largest number there is where one is NaN, or where only the sign of a zero
// differs.
uint64_t UlpDistance(float a, float b);

// Distances from 2^i up to 2^(i+1) - 1; the last counts all larger ones.
inline constexpr size_t kUlpBuckets = 25;

struct ExactTally {
  uint64_t tokens = 0;
  uint64_t unequal = 0;       // log-probs with other bits
  uint64_t unequal_rows = 0;  // tokens with other bits in any logit of their row
  std::array<uint64_t, kUlpBuckets> ulps{};
  double largest = 0;  // difference of two log-probs; NaN counts as infinite

  // Whether nothing differed. Of no tokens that is not known.
  bool exact() const { return tokens > 0 && unequal == 0 && unequal_rows == 0; }
  void Add(float rollout, float trainer, bool same_row);
  void Merge(const ExactTally& other);
};

}  // namespace kcc
