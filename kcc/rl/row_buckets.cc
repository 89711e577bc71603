// The histogram of log-ratios: sign, exponent from 2^-30 to 2^10 and six bits of the mantissa, so
// a bucket is 1/64 of its value wide. |d| < 2^-30 (and 0) shares the two middle buckets.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kcc/rl/row_kernel.h"

namespace kcc {

void CountRlBuckets(const double* d, size_t count, uint32_t* counts) {
  for (size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint64_t>(d[i]);
    const auto leading = static_cast<int64_t>((bits & ~(uint64_t{1} << 63)) >> 46);
    int64_t at = leading - kRlBucketFirst;
    at = at < 0 ? 0 : at;
    at = at > kRlBucketsOneSide - 1 ? kRlBucketsOneSide - 1 : at;
    const auto negative = static_cast<int64_t>(bits >> 63);
    // Negative values count downwards from the middle.
    ++counts[kRlBucketsOneSide + (at ^ -negative)];
  }
}

void CountRlBuckets(const uint16_t* buckets, size_t count, uint32_t* counts) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {  // four numbers by one load
    uint64_t four = 0;
    std::memcpy(&four, buckets + i, sizeof(four));
    ++counts[four & 0xffff];
    ++counts[(four >> 16) & 0xffff];
    ++counts[(four >> 32) & 0xffff];
    ++counts[four >> 48];
  }
  for (; i < count; ++i) ++counts[buckets[i]];
}

std::array<double, 2> RlBucketEdges(int bucket) {
  const bool negative = bucket < kRlBucketsOneSide;
  const int64_t at = negative ? kRlBucketsOneSide - 1 - bucket : bucket - kRlBucketsOneSide;
  const auto begin = static_cast<uint64_t>(kRlBucketFirst + at) << 46;
  const double low = at == 0 ? 0 : std::bit_cast<double>(begin);
  const double high = std::bit_cast<double>(begin | ((uint64_t{1} << 46) - 1));
  return negative ? std::array{-high, -low} : std::array{low, high};
}

}  // namespace kcc
