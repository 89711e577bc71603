// What the tokens of one request have in common is not independent evidence: per series, the sums
// over requests that cluster-robust statistics need (docs/math.md C.3), and per threshold how many
// requests have any token beyond it.
#pragma once

#include <cstdint>
#include <vector>

#include "kcc/numeric/exact_sum.h"
#include "kcc/summary/archive.h"
#include "kcc/summary/moments.h"

namespace kcc {

// For one threshold; X is a request's number of tokens above (below) it, T its number of tokens.
struct ClusterSplit {
  uint64_t any_above = 0;  // requests with X >= 1
  uint64_t any_below = 0;
  __int128 above_squares = 0;  // sum of X^2
  __int128 below_squares = 0;
  __int128 above_tokens = 0;  // sum of X T
  __int128 below_tokens = 0;

  bool operator==(const ClusterSplit&) const = default;
};

struct ClusterSums {
  uint64_t requests = 0;        // with at least one value
  uint64_t infinite = 0;        // of them, with an infinite value: left out of the two sums of S
  __int128 token_squares = 0;   // sum of T^2
  ExactProductSum sum_squares;  // sum of S^2, S = the request's sum of values, rounded once
  ExactProductSum sum_tokens;   // sum of S T
  std::vector<ClusterSplit> splits;  // one per threshold

  // Precondition: the request has values.
  void Add(const Tally& request, size_t thresholds);
  void Merge(const ClusterSums& other);
  void Visit(Archive& archive, size_t thresholds);
};

// As SeriesStats: requests all of whose values are exact, and the two ends of the others.
struct ClusterStats {
  ClusterSums point;
  std::vector<ClusterSums> ends;  // none, or low and high

  void Merge(const ClusterStats& other);
  void Visit(Archive& archive, size_t thresholds);
};

}  // namespace kcc
