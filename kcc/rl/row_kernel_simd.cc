// SumRlRow and SumRlPair by Highway: one body, compiled for each target.
#include "kcc/rl/row_kernel.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "kcc/base/check.h"
#include "kcc/numeric/by_target.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12's AVX-512 intrinsics start from undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kcc/rl/row_kernel_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, once per target.
#include "kcc/rl/row_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

// A row's memory a block ahead, and the caller's next, in equal parts for each chunk: more at once
// would wait for the lines asked for before.
struct RlAhead {
  RlFetch sides[2], next[3];
  size_t side_lines = 0, next_lines[3] = {};

  RlAhead() = default;
  RlAhead(const RlPairInput& in, size_t chunk_bytes) : side_lines(chunk_bytes / 64) {
    const size_t chunks = std::max<size_t>(1, in.count / kRlChunk);
    for (size_t i = 0; i < std::size(next); ++i) {
      next[i] = in.next[i];
      next_lines[i] = next[i].bytes / 64 / chunks + 1;
    }
  }
  void Fetch() {
    for (RlFetch& side : sides) side.Lines(side_lines);
    for (size_t i = 0; i < std::size(next); ++i) next[i].Lines(next_lines[i]);
  }
};

// So many log-ratios are taken from the caller's arrays, then summed while they are in the cache.
inline constexpr size_t kRlBlock = 8 * kRlChunk;

struct RlBlock {
  double buffer[kRlBlock];
  bool small[kRlBlock / kRlChunk];
};

void AddBlock(const double* d, size_t padded, const bool* small, double* excess, RlLaneStore* to,
              RlAhead* ahead) {
  for (size_t lane = 0; lane < kRlLanes; lane += kRealDoubles) {
    RlLaneSums sums = LoadLanes(*to, lane);
    for (size_t begin = 0; begin < padded; begin += kRlChunk) {
      const size_t end = std::min(padded, begin + kRlChunk);
      if (lane == 0) ahead->Fetch();
      if (small[begin / kRlChunk]) {
        AddChunk<true>(d, begin + lane, end, excess, &sums);
      } else {
        AddChunk<false>(d, begin + lane, end, excess, &sums);
      }
    }
    StoreLanes(sums, lane, to);
  }
}

HWY_INLINE DoubleVec Widened(const float* from) {
  return hn::PromoteTo(DoubleTag(), hn::LoadU(NarrowTag(), from));
}
HWY_INLINE DoubleVec Widened(const double* from) { return hn::LoadU(DoubleTag(), from); }

// Where log-ratios come from: the two sides ...
template <class T>
struct RlPairSource {
  const T* train;
  const T* rollout;

  HWY_INLINE DoubleVec Rollouts(size_t i) const { return Widened(rollout + i); }
  HWY_INLINE DoubleVec Ratios(size_t i, DoubleVec r) const {
    return hn::Sub(Widened(train + i), r);
  }
  double Rollout(size_t i) const { return rollout[i]; }
  double Ratio(size_t i) const { return static_cast<double>(train[i]) - rollout[i]; }
};
// ... or as they are.
struct RlRowSource {
  const double* d;
  const double* rollout;

  HWY_INLINE DoubleVec Rollouts(size_t i) const {
    return rollout == nullptr ? SetDouble(0) : hn::LoadU(DoubleTag(), rollout + i);
  }
  HWY_INLINE DoubleVec Ratios(size_t i, DoubleVec) const { return hn::LoadU(DoubleTag(), d + i); }
  double Rollout(size_t i) const { return rollout == nullptr ? 0 : rollout[i]; }
  double Ratio(size_t i) const { return d[i]; }
};

// What is left of a multiple of 8, followed by zeros up to kRlRoom. Whether it is small.
template <class Source>
bool ReadLast(const Source& source, size_t whole, size_t count, double* d, RlLaneStore* to) {
  bool small = true;
  for (size_t i = whole; i < count; ++i) {
    d[i] = source.Ratio(i);
    to->min_d = std::min(to->min_d, d[i]);
    to->max_d = std::max(to->max_d, d[i]);
    small &= std::fabs(d[i]) <= kRlSmall;
    to->lane[kRlSums - 1][i - whole] += source.Rollout(i);
  }
  const size_t room = (count + kRlRoom - 1) / kRlRoom * kRlRoom;
  std::fill(d + count, d + room, 0.0);
  return small;
}

// Up to a block's log-ratios into d, their extremes and the rollout's sum.
template <class Source>
void ReadBlock(const Source& source, size_t count, double* d, bool* small, RlLaneStore* to) {
  const DoubleTag tag;
  const size_t whole = count / kRlLanes * kRlLanes;
  double* rollout = to->lane[kRlSums - 1];
  DoubleVec sums[kRlLanes / kRealDoubles];
  for (size_t g = 0; g < std::size(sums); ++g) sums[g] = hn::LoadU(tag, rollout + g * kRealDoubles);
  DoubleVec min = SetDouble(to->min_d), max = SetDouble(to->max_d);
  for (size_t begin = 0; begin < count; begin += kRlChunk) {
    const size_t end = std::min(whole, begin + kRlChunk);
    DoubleVec low = SetDouble(0), high = SetDouble(0);
    for (size_t i = begin; i < end; i += kRlLanes) {
      for (size_t g = 0; g < std::size(sums); ++g) {
        const DoubleVec r = source.Rollouts(i + g * kRealDoubles);
        const DoubleVec x = source.Ratios(i + g * kRealDoubles, r);
        hn::StoreU(x, tag, d + i + g * kRealDoubles);
        sums[g] = hn::Add(sums[g], r);
        low = i + g == begin ? x : hn::Min(low, x);
        high = i + g == begin ? x : hn::Max(high, x);
      }
    }
    small[begin / kRlChunk] = hn::AllTrue(
        tag, hn::And(hn::Ge(low, SetDouble(-kRlSmall)), hn::Le(high, SetDouble(kRlSmall))));
    if (begin >= end) continue;
    min = hn::Min(min, low);
    max = hn::Max(max, high);
  }
  for (size_t g = 0; g < std::size(sums); ++g) hn::StoreU(sums[g], tag, rollout + g * kRealDoubles);
  to->min_d = hn::GetLane(hn::MinOfLanes(tag, min));
  to->max_d = hn::GetLane(hn::MaxOfLanes(tag, max));
  if (whole < count) small[whole / kRlChunk] &= ReadLast(source, whole, count, d, to);
}

// The buckets, as CountRlBuckets has them; |d| <= 700 needs no bound above. d, to: up to kRlRoom.
void StoreBuckets(const double* d, size_t count, uint16_t* to) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<int32_t>(hn::BitCast(LongTag(), SetDouble(d[i])).raw >> 32);
    const int32_t size = std::max(bits & 0x7fffffff, static_cast<int32_t>(kRlBucketFirst << 14));
    const int32_t at = (size >> 14) - static_cast<int32_t>(kRlBucketFirst);
    to[i] = static_cast<uint16_t>((at ^ (bits >> 31)) + kRlBucketsOneSide);
  }
#else
  // Sign, exponent and the mantissa's first bits are in the upper half of each double.
  const hn::CappedTag<int32_t, kRlRoom> tag;
  const hn::Rebind<uint16_t, decltype(tag)> narrow;
  const auto* halves = reinterpret_cast<const int32_t*>(d);
  const size_t step = hn::Lanes(tag);
  for (size_t i = 0; i < count; i += step) {
    const auto low = hn::LoadU(tag, halves + 2 * i);
    const auto high = hn::LoadU(tag, halves + 2 * i + step);
    const auto bits = hn::ConcatOdd(tag, high, low);
    const auto size = hn::Max(hn::And(bits, hn::Set(tag, 0x7fffffff)),
                              hn::Set(tag, static_cast<int32_t>(kRlBucketFirst << 14)));
    const auto at =
        hn::Sub(hn::ShiftRight<14>(size), hn::Set(tag, static_cast<int32_t>(kRlBucketFirst)));
    const auto bucket =
        hn::Add(hn::Xor(at, hn::ShiftRight<31>(bits)), hn::Set(tag, int32_t{kRlBucketsOneSide}));
    hn::StoreU(hn::DemoteTo(narrow, bucket), narrow, to + i);
  }
#endif
}

// The largest log-prob, and how many pairs have the same bits in float32 (zeros apart from signs).
void ScanSides(const float* train, const float* rollout, size_t count, double* top,
               int64_t* equal) {
  const hn::ScalableTag<float> tag;
  const size_t step = hn::Lanes(tag);
  auto most = hn::Set(tag, static_cast<float>(*top));
  size_t i = 0, same = 0;
  for (; i + step <= count; i += step) {
    const auto t = hn::LoadU(tag, train + i), r = hn::LoadU(tag, rollout + i);
    most = hn::Max(most, hn::Max(t, r));
    same += hn::CountTrue(tag, hn::Eq(t, r));
  }
  *top = hn::GetLane(hn::MaxOfLanes(tag, most));
  for (; i < count; ++i) {
    *top = std::max<double>({*top, train[i], rollout[i]});
    same += train[i] == rollout[i];
  }
  *equal += static_cast<int64_t>(same);
}
void ScanSides(const double* train, const double* rollout, size_t count, double* top,
               int64_t* equal) {
  for (size_t i = 0; i < count; ++i) {
    *top = std::max({*top, train[i], rollout[i]});
    *equal += static_cast<float>(train[i]) == static_cast<float>(rollout[i]);
  }
}

template <class Source>
void SumBlock(const Source& source, size_t begin, size_t count, const RlPairOutput& out,
              RlLaneStore* to, RlAhead* ahead) {
  RlBlock block;
  double* d = out.log_ratio != nullptr ? out.log_ratio + begin : block.buffer;
  ReadBlock(source, count, d, block.small, to);
  if (out.buckets != nullptr) StoreBuckets(d, count, out.buckets + begin);
  const size_t padded = (count + kRlLanes - 1) / kRlLanes * kRlLanes;
  AddBlock(d, padded, block.small, out.excess == nullptr ? nullptr : out.excess + begin, to, ahead);
}

template <class T>
void SumPairLanes(const RlPairInput& in, const RlPairOutput& out, RlLaneStore* to, double* top,
                  int64_t* equal) {
  RlAhead ahead(in, kRlChunk * sizeof(T));
  const auto* train = static_cast<const T*>(in.train);
  const auto* rollout = static_cast<const T*>(in.rollout);
  for (size_t begin = 0; begin < in.count; begin += kRlBlock) {
    const size_t end = std::min(in.count, begin + kRlBlock);
    const size_t more = std::min(in.count - end, kRlBlock);
    ahead.sides[0] = {train + end, more * sizeof(T)};
    ahead.sides[1] = {rollout + end, more * sizeof(T)};
    const RlPairSource<T> source = {train + begin, rollout + begin};
    SumBlock(source, begin, end - begin, out, to, &ahead);
    ScanSides(train + begin, rollout + begin, end - begin, top, equal);
  }
}

void SumLanes(const double* d, const double* rollout, size_t count, double* excess,
              RlLaneStore* to) {
  RlPairOutput out;
  out.excess = excess;
  RlAhead ahead;
  for (size_t begin = 0; begin < count; begin += kRlBlock) {
    const RlRowSource source = {d + begin, rollout == nullptr ? nullptr : rollout + begin};
    SumBlock(source, begin, std::min(kRlBlock, count - begin), out, to, &ahead);
  }
}

RlRowSums Gather(const RlLaneStore& store, size_t count) {
  double sums[9];
  for (size_t s = 0; s < std::size(sums); ++s) sums[s] = AddRlLanes(store.lane[s]);
  RlRowSums out;
  out.d = sums[0];
  out.abs_d = sums[1];
  out.square_d = sums[2];
  out.e = sums[3];
  out.square_e = sums[4];
  out.below = 0 - sums[5];
  out.abs_e = out.e + 2 * out.below;
  out.k3 = sums[6];
  out.k3_reverse = sums[7] - out.k3;
  out.rollout = sums[8];
  out.train = out.rollout + out.d;
  if (count > 0) {
    out.min_d = store.min_d;
    out.max_d = store.max_d;
  }
  return out;
}

// Everything usual: |d| <= 700 and no log-prob above 1e-3. A NaN or an infinity shows in the sum.
RlPairSums GatherPair(const RlLaneStore& store, size_t count, double top, int64_t equal) {
  RlPairSums sums;
  sums.row = Gather(store, count);
  sums.equal = equal;
  sums.usual =
      count == 0 || (std::isfinite(sums.row.d) && top <= kRlLogProbMax &&
                     sums.row.min_d >= -kRlLogRatioMax && sums.row.max_d <= kRlLogRatioMax);
  return sums;
}

RlRowSums SumRlRowOf(const double* d, const double* rollout, size_t count, double* excess) {
  RlLaneStore store;
  SumLanes(d, rollout, count, excess, &store);
  return Gather(store, count);
}

RlPairSums SumRlPairOf(const RlPairInput& in, const RlPairOutput& out) {
  double top = -std::numeric_limits<double>::infinity();
  int64_t equal = 0;
  RlLaneStore store;
  if (in.is_double) {
    SumPairLanes<double>(in, out, &store, &top, &equal);
  } else {
    SumPairLanes<float>(in, out, &store, &top, &equal);
  }
  return GatherPair(store, in.count, top, equal);
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kcc {

RlRowSums SumRlRow(const double* d, const double* rollout, size_t count, double* excess,
                   Target target) {
  KCC_RETURN_BY_TARGET(target, SumRlRowOf(d, rollout, count, excess));
}

RlPairSums SumRlPair(const RlPairInput& in, const RlPairOutput& out, Target target) {
  KCC_RETURN_BY_TARGET(target, SumRlPairOf(in, out));
}

}  // namespace kcc
#endif  // HWY_ONCE
