// The sums over one row's tokens, eight virtual lanes on every target: token i belongs to lane
// i mod 8, a lane adds in order, lanes are added in a fixed tree. So a row's sums are the same bits
// on every CPU. e^d - 1 and e^d - 1 - d are taken together, without cancellation near 0; the
// one is within 4 ulp of exact, the other within 8, within 4 for |d| < 0.34 (row_kernel_test.cc).
// Chunks of 64 tokens whose |d| are all at most 1/8, as they mostly are, take a shorter polynomial:
// a choice by the data alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kcc/numeric/target.h"
#include "kcc/rl/batch.h"

namespace kcc {

inline constexpr size_t kRlLanes = kDoubleLanes;
inline constexpr size_t kRlChunk = 64;
inline constexpr double kRlSmall = 0.125;  // the bound on |d| in a chunk for the shorter polynomial
// Arrays of one row that a kernel writes have room up to the next multiple of this.
inline constexpr size_t kRlRoom = 16;

inline double AddRlLanes(const double* lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

struct RlRowSums {
  double d = 0, abs_d = 0, square_d = 0;
  double e = 0, square_e = 0;  // e = w - 1
  double below = 0;            // (1 - w)+
  double abs_e = 0;            // e + 2 below
  double k3 = 0;
  double k3_reverse = 0;  // w d - w + 1: the sum of d e less k3, both of one sign
  double rollout = 0;
  double train = 0;             // rollout + d
  double min_d = 0, max_d = 0;  // over the tokens; 0 and 0 for none
};
// Whether sums of w - 1 say all of the row's w: so much is left of their mean beside the 1 that no
// digit of it is lost, and no square comes near overflow.
inline constexpr double kRlNearRowMax = 100;  // of d
inline bool IsNearRow(const RlRowSums& sums, int64_t tokens) {
  return sums.e >= -0.9 * static_cast<double>(tokens) && sums.max_d <= kRlNearRowMax;
}

// |d| <= 700. rollout: may be null (its sum is then 0). excess: receives w - 1, with room, 0 up to
// the next multiple of 8, or null.
RlRowSums SumRlRow(const double* d, const double* rollout, size_t count, double* excess,
                   Target target);

// Memory that is read soon. Lines of it are brought near while something else is computed.
struct RlFetch {
  const void* data = nullptr;
  size_t bytes = 0;

  // Asks for the next lines, as many as are left.
  void Lines(size_t count) {
    constexpr size_t kLine = 64;
    const auto* at = static_cast<const char*>(data);
    const size_t now = count * kLine < bytes ? count * kLine : bytes;
    for (size_t k = 0; k < now; k += kLine) __builtin_prefetch(at + k, 0, 2);
    data = at + now;
    bytes -= now;
  }
};

// The same from a row's two arrays as they lie in memory, read once: d = train - rollout.
struct RlPairInput {
  const void* train = nullptr;
  const void* rollout = nullptr;
  bool is_double = false;  // else float
  size_t count = 0;
  RlFetch next[3];  // what the caller reads after this row, if it knows
};
// Each null or with room.
struct RlPairOutput {
  double* excess = nullptr;     // w - 1
  double* log_ratio = nullptr;  // d
  uint16_t* buckets = nullptr;  // the bucket of each d
};
struct RlPairSums {
  RlRowSums row;      // as SumRlRow gives them, to the bit
  int64_t equal = 0;  // tokens whose float32 log-probs have the same bits
  // No NaN, no |d| > 700, no log-prob above kRlLogProbMax. If false, nothing else is of use.
  bool usual = false;
};
RlPairSums SumRlPair(const RlPairInput& in, const RlPairOutput& out, Target target);

// Where the ones of a mask's row lie, if they are one run: [begin, end). A row without any is
// an empty run. False: several runs, or a NaN.
bool FindOneRun(const void* mask, RlType type, size_t count, size_t* begin, size_t* end,
                Target target);

// The final weights phi of a row's tokens and their sums, in the same lanes.
struct RlPhiInput {
  const double* excess = nullptr;  // w - 1, readable up to the next multiple of 8
  const double* phi = nullptr;     // as they are to be; null: from w by the four that follow
  double low = 0, high = 0;        // min(max(w, low), high); equal: the one weight of all tokens
  bool zero_outside = false;       // 0 outside [low, high] instead
  bool inside = false;             // no w is outside [low, high]: the caller knows it
  bool reject = false;             // phi is 0 for every token
  double scale = 1;                // of what is not rejected
  double sequence_ratio = 1;       // W
  size_t count = 0;
};
struct RlPhiSums {
  double weight = 0;                         // before rejection and scale
  double kept = 0, square = 0;               // of phi
  double bias_token = 0, bias_sequence = 0;  // of |w - phi|, |W - phi|
  int64_t outside = 0;                       // w < low or w > high
};
// Writes `count` weights, in either form; either may be null.
RlPhiSums SumRlPhi(const RlPhiInput& in, float* phi, double* phi_double, Target target);

// Adds 1 to the bucket of each d, counts[kRlBuckets]; or to those that are known.
inline constexpr int kRlBucketsOneSide = 41 * 64;
inline constexpr int kRlBuckets = 2 * kRlBucketsOneSide;
inline constexpr int64_t kRlBucketFirst = int64_t{1023 - 30} << 6;  // the leading bits of 2^-30
void CountRlBuckets(const double* d, size_t count, uint32_t* counts);
void CountRlBuckets(const uint16_t* buckets, size_t count, uint32_t* counts);
// The closed range of d in a bucket; buckets rise with d.
std::array<double, 2> RlBucketEdges(int bucket);

}  // namespace kcc
