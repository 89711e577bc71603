// How eight consecutive-enough logits of one lane are held and widened, by format.
//
// A tile is 256 entries, eight a lane. 16-bit formats keep their packed pairs, so that maxima
// (row_tops.cuh) cost a quarter of an instruction an entry; NaN wins a maximum, so that it cannot
// hide.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "kcc/drift/cuda/row_cut.h"

namespace kcc {

inline constexpr int kLaneEntries = 8;
inline constexpr float kFloatInf = __builtin_huge_valf();

// Floats in order as signed integers; NaN (as the maxima give it) above +inf.
__device__ __forceinline__ int OrderedBits(float value) {
  const int bits = __float_as_int(value);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
__device__ __forceinline__ float FromOrderedBits(int bits) {
  return __int_as_float(bits ^ ((bits >> 31) & 0x7fffffff));
}

__device__ __forceinline__ float MaxOrNan(float a, float b) {
  float out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}

// Entry j (0..7) of a lane lies at this place of the tile.
template <class T>
__device__ __forceinline__ int PlaceInTile(int lane, int j) {
  if constexpr (sizeof(T) == 4) return (j & 4) * 32 + lane * 4 + (j & 3);
  return lane * kLaneEntries + j;
}

// Whose lane it is in.
template <class T>
__device__ __forceinline__ int LaneInTile(int place) {
  if constexpr (sizeof(T) == 4) return place % 128 / 4;
  return place / kLaneEntries;
}

// -inf, or the lowest value of a format without one.
template <class T>
__device__ __forceinline__ T LowestLogit() {
  T value;
  if constexpr (sizeof(T) == 1) {
    value.__x = std::is_same_v<T, __nv_fp8_e4m3> ? 0xfe : 0xfc;
  } else {
    value = T(-kFloatInf);
  }
  return value;
}

template <class T>
__device__ __forceinline__ T EntryOrLowest(const T* tile, int place, int count) {
  return place < count ? tile[place] : LowestLogit<T>();
}

// One of the two entries of a word: BF16, or halves.
template <class T>
__device__ __forceinline__ float Widened(uint32_t pair, bool upper) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __uint_as_float(upper ? pair & 0xffff0000u : pair << 16);
  } else {
    const __half2 halves = *reinterpret_cast<const __half2*>(&pair);
    return upper ? __high2float(halves) : __low2float(halves);
  }
}

template <class T>
struct LaneLogits;

template <>
struct LaneLogits<__nv_bfloat16> {
  uint32_t pairs[4];

  __device__ __forceinline__ void Load(const void* tile, int lane) {
    const uint4 v = static_cast<const uint4*>(tile)[lane];
    pairs[0] = v.x, pairs[1] = v.y, pairs[2] = v.z, pairs[3] = v.w;
  }
  __device__ __forceinline__ void FromWords(const uint32_t (&words)[4]) {
    for (int k = 0; k < 4; ++k) pairs[k] = words[k];
  }
  // Of a tile of `count` entries, at any address.
  __device__ __forceinline__ void LoadEntries(const __nv_bfloat16* tile, int lane, int count) {
    for (int k = 0; k < 4; ++k) {
      const int place = PlaceInTile<__nv_bfloat16>(lane, 2 * k);
      const uint32_t low = __bfloat16_as_ushort(EntryOrLowest(tile, place, count));
      const uint32_t high = __bfloat16_as_ushort(EntryOrLowest(tile, place + 1, count));
      pairs[k] = low | (high << 16);
    }
  }
  __device__ __forceinline__ float At(int j) const {
    return Widened<__nv_bfloat16>(pairs[j / 2], (j & 1) != 0);
  }
  // Depends on every load that Load is made of: code that depends on it waits for all of them.
  __device__ __forceinline__ uint32_t WordOfEachLoad() const { return pairs[0]; }
};

template <>
struct LaneLogits<__half> {
  uint32_t pairs[4];

  __device__ __forceinline__ void Load(const void* tile, int lane) {
    const uint4 v = static_cast<const uint4*>(tile)[lane];
    pairs[0] = v.x, pairs[1] = v.y, pairs[2] = v.z, pairs[3] = v.w;
  }
  __device__ __forceinline__ void FromWords(const uint32_t (&words)[4]) {
    for (int k = 0; k < 4; ++k) pairs[k] = words[k];
  }
  __device__ __forceinline__ void LoadEntries(const __half* tile, int lane, int count) {
    for (int k = 0; k < 4; ++k) {
      const int place = PlaceInTile<__half>(lane, 2 * k);
      const uint32_t low = __half_as_ushort(EntryOrLowest(tile, place, count));
      const uint32_t high = __half_as_ushort(EntryOrLowest(tile, place + 1, count));
      pairs[k] = low | (high << 16);
    }
  }
  __device__ __forceinline__ float At(int j) const {
    return Widened<__half>(pairs[j / 2], (j & 1) != 0);
  }
  __device__ __forceinline__ uint32_t WordOfEachLoad() const { return pairs[0]; }
};

template <>
struct LaneLogits<float> {
  float at[8];

  __device__ __forceinline__ void Load(const void* tile, int lane) {
    const float4 v = static_cast<const float4*>(tile)[lane];
    const float4 w = static_cast<const float4*>(tile)[32 + lane];
    at[0] = v.x, at[1] = v.y, at[2] = v.z, at[3] = v.w;
    at[4] = w.x, at[5] = w.y, at[6] = w.z, at[7] = w.w;
  }
  __device__ __forceinline__ void FromWords(const uint32_t (&words)[8]) {
    for (int k = 0; k < 8; ++k) at[k] = __uint_as_float(words[k]);
  }
  __device__ __forceinline__ void LoadEntries(const float* tile, int lane, int count) {
    for (int j = 0; j < 8; ++j) at[j] = EntryOrLowest(tile, PlaceInTile<float>(lane, j), count);
  }
  __device__ __forceinline__ float At(int j) const { return at[j]; }
  __device__ __forceinline__ uint32_t WordOfEachLoad() const {
    return __float_as_uint(at[0]) | __float_as_uint(at[4]);
  }
};

// FP8 is widened to halves, exactly, when it is loaded.
template <class T, __nv_fp8_interpretation_t kFormat>
struct LaneFp8 : LaneLogits<__half> {
  __device__ __forceinline__ void Load(const void* tile, int lane) {
    const uint2 v = static_cast<const uint2*>(tile)[lane];
    Widen(v.x, v.y);
  }
  __device__ __forceinline__ void FromWords(const uint32_t (&words)[2]) {
    Widen(words[0], words[1]);
  }
  __device__ __forceinline__ void LoadEntries(const T* tile, int lane, int count) {
    uint32_t words[2] = {0, 0};
    for (int j = 0; j < 8; ++j) {
      const uint32_t byte = EntryOrLowest(tile, PlaceInTile<T>(lane, j), count).__x;
      words[j / 4] |= byte << (8 * (j & 3));
    }
    Widen(words[0], words[1]);
  }
  __device__ __forceinline__ void Widen(uint32_t first, uint32_t second) {
    const uint32_t words[2] = {first, second};
    for (int k = 0; k < 4; ++k) {
      const auto two = static_cast<__nv_fp8x2_storage_t>(words[k / 2] >> (16 * (k & 1)));
      const __half2_raw wide = __nv_cvt_fp8x2_to_halfraw2(two, kFormat);
      pairs[k] = static_cast<uint32_t>(wide.x) | (static_cast<uint32_t>(wide.y) << 16);
    }
  }
};
template <>
struct LaneLogits<__nv_fp8_e4m3> : LaneFp8<__nv_fp8_e4m3, __NV_E4M3> {};
template <>
struct LaneLogits<__nv_fp8_e5m2> : LaneFp8<__nv_fp8_e5m2, __NV_E5M2> {};

__device__ __forceinline__ uint32_t SharedAddress(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// Copies into shared memory go in groups, of which a lane waits for all but the last few.
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;"); }
template <int kPending>
__device__ __forceinline__ void AwaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Where a lane's first entry lies in a tile.
template <class T>
__device__ __forceinline__ int LaneOffset(int lane) {
  return lane * (sizeof(T) == 1 ? 8 : 16);
}

// What a lane needs of a tile, as it is, into the same places of a tile in shared memory; both are
// given by the lane's own places. The lane itself must wait before it reads it there. Tiles that
// start anywhere come entry by entry.
template <class T, bool kAligned>
__device__ __forceinline__ void CopyTile(const char* from, char* to) {
  constexpr int kParts = sizeof(T) == 4 ? 2 : 1;
  constexpr int kBytes = sizeof(T) == 1 ? 8 : 16;
  if constexpr (kAligned) {
    const uint32_t address = SharedAddress(to);
    if constexpr (kBytes == 8) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(address), "l"(from));
    } else {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
      if constexpr (kParts == 2) {
        asm volatile("cp.async.cg.shared.global [%0 + 512], [%1 + 512], 16;" ::"r"(address),
                     "l"(from));
      }
    }
  } else {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const T* source = reinterpret_cast<const T*>(from + part * 512);
      T* target = reinterpret_cast<T*>(to + part * 512);
#pragma unroll
      for (int j = 0; j < kBytes / static_cast<int>(sizeof(T)); ++j) target[j] = source[j];
    }
  }
}

// A tile that starts anywhere, as the 16-byte parts that hold it: it begins `shift` bytes into the
// first of them. The warp must wait, and meet, before it reads any of it.
template <class T>
__device__ __forceinline__ void CopyShiftedTile(const char* tile, int shift, int lane, char* to) {
  constexpr int kParts = kTileEntries * static_cast<int>(sizeof(T)) / 16 + 1;
  const char* const from = tile - shift;
  const uint32_t address = SharedAddress(to);
#pragma unroll
  for (int first = 0; first < kParts; first += 32) {
    const int part = first + lane;
    if (part >= kParts) continue;
    // Nothing beyond the tile is read: it may be the tensor's end.
    const int bytes = part == kParts - 1 ? shift : 16;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address + part * 16),
                 "l"(from + part * 16), "r"(bytes));
  }
}

// A lane's entries of such a tile. Whole 16-byte parts are read and then shifted into place: single
// words would be four to a bank.
template <class T>
__device__ __forceinline__ LaneLogits<T> LoadShifted(const char* tile, int shift, int lane) {
  constexpr int kBytes = sizeof(T) == 1 ? 8 : 16;
  constexpr int kParts = sizeof(T) == 4 ? 2 : 1;
  alignas(16) uint32_t words[kParts * kBytes / 4];
  const int begin = lane * kBytes + shift;
  const int first = begin & 12;  // of the bytes, within their parts; the words before are left out
  const auto bits = static_cast<unsigned>(begin & 3) * 8;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const auto* from = reinterpret_cast<const uint4*>(tile + part * 512 + (begin & ~15));
    const uint4 low = from[0];
    const uint4 high = from[1];
    const uint32_t all[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    uint32_t half[kBytes / 4 + 2];
#pragma unroll
    for (int k = 0; k < kBytes / 4 + 2; ++k) half[k] = (first & 8) != 0 ? all[k + 2] : all[k];
    uint32_t whole[kBytes / 4 + 1];
#pragma unroll
    for (int k = 0; k < kBytes / 4 + 1; ++k) whole[k] = (first & 4) != 0 ? half[k + 1] : half[k];
#pragma unroll
    for (int k = 0; k < kBytes / 4; ++k) {
      words[part * kBytes / 4 + k] = __funnelshift_r(whole[k], whole[k + 1], bits);
    }
  }
  LaneLogits<T> logits;
  logits.FromWords(words);
  return logits;
}

// As DType numbers them.
inline constexpr int kDeviceF32 = 1;
inline constexpr int kDeviceF16 = 2;
inline constexpr int kDeviceBF16 = 3;
inline constexpr int kDeviceF8E4M3 = 4;
inline constexpr int kDeviceF8E5M2 = 5;

__device__ __forceinline__ float LoadLogitAt(const void* row, int dtype, int64_t i) {
  switch (dtype) {
    case kDeviceF32:
      return static_cast<const float*>(row)[i];
    case kDeviceF16:
      return __half2float(static_cast<const __half*>(row)[i]);
    case kDeviceBF16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(row)[i]);
    default: {
      const auto bits = static_cast<const uint8_t*>(row)[i];
      const auto format = dtype == kDeviceF8E4M3 ? __NV_E4M3 : __NV_E5M2;
      const __half_raw raw = __nv_cvt_fp8_to_halfraw(bits, format);
      return __half2float(__half(raw));
    }
  }
}

}  // namespace kcc
