// The sums over one row's tokens, eight virtual lanes on every target: token i belongs to lane
// i mod 8, a lane adds in order, lanes are added in a fixed tree. So a row's sums are the same bits
// on every CPU. e^d - 1 and e^d - 1 - d are taken together, without cancellation near 0; each is
// within 4 ulp of exact (row_kernel_test.cc).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kcc/numeric/target.h"

namespace kcc {

inline constexpr size_t kRlLanes = 8;

struct RlRowSums {
  double d = 0, abs_d = 0, square_d = 0;
  double e = 0, abs_e = 0, square_e = 0;  // e = w - 1
  double k3 = 0;
  double k3_reverse = 0;  // d e - k3 = w d - w + 1
  double below = 0;       // (1 - w)+
  double train = 0, rollout = 0;
  double min_d = 0, max_d = 0;  // over the tokens; 0 and 0 for none
};

// d has `count` tokens and is readable, and 0, up to the next multiple of 8. |d| <= 700.
// train, rollout: likewise, or null (their sums are then 0). excess: receives w - 1 up to the
// same multiple, or null.
RlRowSums SumRlRow(const double* d, const double* train, const double* rollout, size_t count,
                   double* excess, Target target);

// Adds 1 to the bucket of each d (RlBuckets), counts[kRlBuckets].
inline constexpr int kRlBucketsOneSide = 41 * 64;
inline constexpr int kRlBuckets = 2 * kRlBucketsOneSide;
void CountRlBuckets(const double* d, size_t count, uint32_t* counts);
// The closed range of d in a bucket; buckets rise with d.
std::array<double, 2> RlBucketEdges(int bucket);

}  // namespace kcc
