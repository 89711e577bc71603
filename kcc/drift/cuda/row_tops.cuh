// The largest entries of a lane's tiles, by piece, for finding the top tokens: which few lanes may
// hold one, and in which of their tiles.
#pragma once

#include "kcc/drift/cuda/device_types.cuh"

namespace kcc {

// The largest entry seen by a lane.
template <class T>
struct LaneMax {  // halves
  uint32_t packed = 0xfc00fc00u;

  __device__ __forceinline__ void Add(const LaneLogits<T>& v) {
    for (int k = 0; k < 4; ++k) {
      asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(packed) : "r"(v.pairs[k]));
    }
  }
  __device__ __forceinline__ float Value() const {
    const __half2 pair = *reinterpret_cast<const __half2*>(&packed);
    return MaxOrNan(__low2float(pair), __high2float(pair));
  }
};

template <>
struct LaneMax<__nv_bfloat16> {
  uint32_t packed = 0xff80ff80u;

  __device__ __forceinline__ void Add(const LaneLogits<__nv_bfloat16>& v) {
    for (int k = 0; k < 4; ++k) {
      asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(packed) : "r"(v.pairs[k]));
    }
  }
  __device__ __forceinline__ float Value() const {
    return MaxOrNan(__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000u));
  }
};

template <>
struct LaneMax<float> {
  float value = -kFloatInf;

  __device__ __forceinline__ void Add(const LaneLogits<float>& v) {
    for (int j = 0; j < 8; ++j) value = MaxOrNan(value, v.at[j]);
  }
  __device__ __forceinline__ float Value() const { return value; }
};

// Of two words the larger, or of their halves each.
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

// The largest entry of each side among some: in a word each, or of formats of 16 bits, and of FP8,
// which is widened to halves, in one.
template <class T>
struct TopPair {
  static constexpr int kWords = sizeof(T) == 4 ? 2 : 1;
  uint32_t words[kWords];

  __device__ __forceinline__ static TopPair Of(const LaneMax<T>& train, const LaneMax<T>& infer) {
    if constexpr (sizeof(T) == 4) {
      return {__float_as_uint(train.value), __float_as_uint(infer.value)};
    } else {
      return {MaxWord<T>(__byte_perm(train.packed, infer.packed, 0x5410),
                         __byte_perm(train.packed, infer.packed, 0x7632))};
    }
  }
  // Of words that lie so far apart.
  __device__ __forceinline__ static TopPair At(const uint32_t* from, int apart) {
    TopPair top;
    for (int k = 0; k < kWords; ++k) top.words[k] = from[k * apart];
    return top;
  }
  // As ordered bits.
  __device__ __forceinline__ int Train() const { return OrderedBits(Entry(0)); }
  __device__ __forceinline__ int Infer() const { return OrderedBits(Entry(1)); }

 private:
  __device__ __forceinline__ float Entry(int side) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[side]);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      return __uint_as_float(side == 0 ? words[0] << 16 : words[0] & 0xffff0000u);
    } else {
      const auto pair = *reinterpret_cast<const __half2*>(&words[0]);
      return side == 0 ? __low2float(pair) : __high2float(pair);
    }
  }
};

// Of a warp's words, four a lane, the largest of each four in their place; halves of the list
// change lanes at each step. Lane l gets the one that bits 4, 3 of l name.
template <class T>
__device__ __forceinline__ uint32_t SwapMax(uint32_t first, uint32_t second, int lane, int mask) {
  const bool upper = (lane & mask) != 0;
  const uint32_t keep = upper ? second : first;
  const uint32_t give = upper ? first : second;
  return MaxWord<T>(keep, __shfl_xor_sync(0xffffffffu, give, mask));
}
template <class T>
__device__ __forceinline__ uint32_t ReduceTops(const uint32_t (&tops)[4], int lane) {
  uint32_t value = SwapMax<T>(SwapMax<T>(tops[0], tops[1], lane, 16),
                              SwapMax<T>(tops[2], tops[3], lane, 16), lane, 8);
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
  __device__ __forceinline__ void Leave(uint32_t* lanes, uint32_t* warp, int lane) const {
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
