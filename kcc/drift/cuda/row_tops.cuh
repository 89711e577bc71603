// The largest entries of a lane's tiles, by piece, for finding the top tokens: which few lanes may
// hold one, and in which of their tiles.
#pragma once

#include "kcc/drift/cuda/row_terms.cuh"

namespace kcc {

// Of two words the larger, or of their halves each; NaN if there is one.
template <class T>
__device__ __forceinline__ uint32_t MaxWord(uint32_t first, uint32_t second) {
  uint32_t out;
  if constexpr (sizeof(T) == 4) {
    out = __float_as_uint(MaxOrNan(__uint_as_float(first), __uint_as_float(second)));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(first), "r"(second));
  } else {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(out) : "r"(first), "r"(second));
  }
  return out;
}

// The largest entry seen by a lane, or that of its even and of its odd ones.
template <class T>
struct LaneMax {
  // -inf
  uint32_t word = sizeof(T) == 4                     ? 0xff800000u
                  : std::is_same_v<T, __nv_bfloat16> ? 0xff80ff80u
                                                     : 0xfc00fc00u;

  __device__ __forceinline__ void Add(const LaneLogits<T>& v) {
    if constexpr (sizeof(T) == 4) {
      for (const float entry : v.at) word = MaxWord<T>(word, __float_as_uint(entry));
    } else {
      for (const uint32_t pair : v.pairs) word = MaxWord<T>(word, pair);
    }
  }
  __device__ __forceinline__ float Value() const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(word);
    } else {
      return MaxOrNan(Widened<T>(word, false), Widened<T>(word, true));
    }
  }
};

// The largest entry of each side among some: in a word each, or of formats of 16 bits, and of FP8,
// which is widened to halves, in one.
template <class T>
struct TopPair {
  static constexpr int kWords = sizeof(T) == 4 ? 2 : 1;
  uint32_t words[kWords];

  __device__ __forceinline__ static TopPair Of(const LaneMax<T>& train, const LaneMax<T>& infer) {
    if constexpr (sizeof(T) == 4) {
      return {train.word, infer.word};
    } else {
      return {MaxWord<T>(__byte_perm(train.word, infer.word, 0x5410),
                         __byte_perm(train.word, infer.word, 0x7632))};
    }
  }
  // Of words that lie `step` words from each other.
  __device__ __forceinline__ static TopPair At(const uint32_t* from, int step) {
    TopPair top;
    for (int k = 0; k < kWords; ++k) top.words[k] = from[k * step];
    return top;
  }
  // As ordered bits.
  __device__ __forceinline__ int Train() const { return OrderedBits(Entry(0)); }
  __device__ __forceinline__ int Infer() const { return OrderedBits(Entry(1)); }

 private:
  __device__ __forceinline__ float Entry(int side) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[side]);
    } else {
      return Widened<T>(words[0], side == 1);
    }
  }
};

// Of a warp's words, four a lane, the largest of each in its place. Lane l gets the one that bits
// 4, 3 of l name.
template <class T>
__device__ __forceinline__ uint32_t ReduceTops(const uint32_t (&tops)[4], int lane) {
  const auto swap_max = [&](uint32_t first, uint32_t second, int mask) {
    return SwapAndJoin(first, second, lane, mask, &MaxWord<T>);
  };
  uint32_t value = swap_max(swap_max(tops[0], tops[1], 16), swap_max(tops[2], tops[3], 16), 8);
  for (int mask = 4; mask > 0; mask >>= 1) {
    value = MaxWord<T>(value, __shfl_xor_sync(0xffffffffu, value, mask));
  }
  return value;
}
__device__ __forceinline__ int ReducedTop(int lane) { return (lane >> 4 & 1) | (lane >> 2 & 2); }

// What a lane has of a row's pieces: their tops, in four words.
inline constexpr int kTopWords = 4;

template <class T>
class LaneTops {
 public:
  // As if all pieces were empty.
  __device__ __forceinline__ void Begin() {
    const LaneMax<T> none;
    const auto top = TopPair<T>::Of(none, none);
#pragma unroll
    for (int k = 0; k < kTopWords; ++k) words_[k] = top.words[k % kWords];
  }
  // What was found so far is the next piece's. Pieces that are not ended are the first ones.
  __device__ __forceinline__ void EndPiece(LaneMax<T>* train, LaneMax<T>* infer) {
    const auto top = TopPair<T>::Of(*train, *infer);
#pragma unroll
    for (int k = 0; k < kTopWords; ++k) {
      words_[k] = k + kWords < kTopWords ? words_[k + kWords] : top.words[k + kWords - kTopWords];
    }
    *train = *infer = LaneMax<T>();
  }
  // Of all pieces, as ordered bits.
  __device__ __forceinline__ int Train() const {
    TopPair<T> top = TopPair<T>::At(words_, 1);
#pragma unroll
    for (int k = kWords; k < kTopWords; ++k) {
      uint32_t& word = top.words[k % kWords];
      word = MaxWord<T>(word, words_[k]);
    }
    return top.Train();
  }
  // `lanes`: the warp's words, by word and lane; `warp`: the largest of them, by word.
  __device__ __forceinline__ void Store(uint32_t* lanes, uint32_t* warp, int lane) const {
#pragma unroll
    for (int k = 0; k < kTopWords; ++k) lanes[k * 32 + lane] = words_[k];
    const uint32_t top = ReduceTops<T>(words_, lane);
    if (lane % 8 == 0) warp[ReducedTop(lane)] = top;
  }

 private:
  static constexpr int kWords = TopPair<T>::kWords;
  static_assert(PiecesOf(sizeof(T)) * kWords == kTopWords);

  uint32_t words_[kTopWords] = {};
};

}  // namespace kcc
