// What one entry adds to the sums of its row: e = 2^(a log2(e)/tau - K), x = (b - a - c)/tau and
// E = e^x - 1, in the forms of drift/row_end.cc, where no sum cancels while c is near delta.
//
// One exponential an entry; E comes from its even and odd halves, C = (cosh x - 1)/x^2 and
// O = (sinh x - x)/x^3, as short as the range of x allows. e and q = e E stay in registers for the
// second visit, which tv needs.
#pragma once

#include <climits>

#include "kcc/drift/cuda/device_types.cuh"

namespace kcc {

enum TermRange { kSmallRange, kMediumRange, kWholeRange };
inline constexpr float kSmallEnd = 0.25f;
inline constexpr float kMediumEnd = 1.0f;
inline constexpr float kWholeEnd = 32.0f;  // beyond it the row is measured in double

inline constexpr int kLaneSums = 10;
struct LaneSums {
  // e, q, e (E - x), e (cosh x - 1), q x, q E, e t, q t, y, y^2; t is the exponent of e, and y the
  // difference b - a, or x where the whole row is shifted.
  float sum[kLaneSums] = {};
  // Extremes of y from the bits of floats: as signed integers the largest are the positive ones,
  // as unsigned integers the most negative. Where y does not take both signs one of them is
  // unknown (Extremes).
  int high = INT_MIN;
  uint32_t low = 0;
};

// False: unknown, and not both 0.
__device__ __forceinline__ bool ExtremesOf(int high, uint32_t low, float* low_out,
                                           float* high_out) {
  const bool has_negative = (low >> 31) != 0;
  const bool has_other = high >= 0;  // 0 or more
  *low_out = has_negative ? __uint_as_float(low) : 0.0f;
  *high_out = has_other ? __int_as_float(high) : 0.0f;
  return (has_negative && has_other) || (!has_negative && high == 0);
}

__device__ __forceinline__ float Exp2Approx(float t) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(t));
  return out;
}

struct Excess {
  float excess;    // E
  float residual;  // (E - x) / x^2, or E - x itself where `plain`
  float even;      // C, or cosh x - 1 itself where `plain`
};

// Errors relative to the series' value: 1.9e-6 at |x| = 1/4 and falling as x^4, since the leading
// coefficients are exact; 6e-7 at |x| = 1.
template <TermRange kRange>
__device__ __forceinline__ Excess NearTerms(float x, float u) {
  float even;
  float odd;
  if constexpr (kRange == kSmallRange) {
    even = fmaf(u, 0.04173858f, 0.5f);
    odd = fmaf(u, 0.00834361f, 0.16666667f);
  } else {
    even = fmaf(u, fmaf(u, fmaf(u, 2.4801587e-5f, 1.3888889e-3f), 0.041666667f), 0.5f);
    odd = fmaf(u, fmaf(u, fmaf(u, 2.7557319e-6f, 1.984127e-4f), 8.3333333e-3f), 0.16666667f);
  }
  const float residual = fmaf(x, odd, even);
  return {fmaf(u, residual, x), residual, even};
}

// `counts` (if masked): false for the pivot, which is carried apart, and beyond the row's end.
template <TermRange kRange, bool kMasked, bool kSquare>
__device__ __forceinline__ void AddTerms(float a, float x, float scale, float minus_k, bool counts,
                                         LaneSums* sums, float* e_out, float* q_out) {
  const float t = fmaf(a, scale, minus_k);
  float e = Exp2Approx(t);
  if constexpr (kMasked) e = counts ? e : 0.0f;
  float u = x * x;
  Excess terms = NearTerms<kRange>(x, u);
  float weight = e * u;
  if constexpr (kRange == kWholeRange) {
    if (fabsf(x) > kMediumEnd) {
      const float up = Exp2Approx(x * 1.44269504f);
      const float down = Exp2Approx(x * -1.44269504f);
      terms.excess = up - 1.0f;
      terms.residual = terms.excess - x;
      terms.even = 0.5f * (up + down) - 1.0f;
      weight = e;
    }
  }
  const float q = e * terms.excess;
  float* s = sums->sum;
  s[0] += e;
  s[1] += q;
  s[2] = fmaf(weight, terms.residual, s[2]);
  s[3] = fmaf(weight, terms.even, s[3]);
  s[4] = fmaf(q, x, s[4]);
  if constexpr (kSquare) s[5] = fmaf(q, terms.excess, s[5]);
  // 0 x -inf is a mask's business, and the careful kernel's.
  s[6] = fmaf(e, t, s[6]);
  s[7] = fmaf(q, t, s[7]);
  *e_out = e;
  *q_out = q;
}

// Sums of a warp by a fixed tree. Halves of the list change lanes at each step, so that ten sums
// cost twelve exchanges; *index is the sum that the lane ends with, *writes whether it is its
// keeper.
__device__ __forceinline__ float ReduceLaneSums(const float (&sum)[kLaneSums], int lane, int* index,
                                                bool* writes) {
  const unsigned all = 0xffffffffu;
  const auto swap_add = [&](float first, float second, int mask) {
    const bool upper = (lane & mask) != 0;
    const float keep = upper ? second : first;
    const float give = upper ? first : second;
    return keep + __shfl_xor_sync(all, give, mask);
  };
  float five[5];
  for (int i = 0; i < 5; ++i) five[i] = swap_add(sum[i], sum[i + 5], 16);
  const float first = swap_add(five[0], five[3], 8);
  const float second = swap_add(five[1], five[4], 8);
  const float third = five[2] + __shfl_xor_sync(all, five[2], 8);
  const float left = swap_add(first, third, 4);
  const float right = second + __shfl_xor_sync(all, second, 4);
  float value = swap_add(left, right, 2);
  value += __shfl_xor_sync(all, value, 1);
  const bool h = (lane & 16) != 0;
  const bool g = (lane & 8) != 0;
  const bool f = (lane & 4) != 0;
  const bool b = (lane & 2) != 0;
  *index = (b ? (g ? 4 : 1) : f ? 2 : g ? 3 : 0) + (h ? 5 : 0);
  *writes = (lane & 1) == 0 && (b ? !f : f ? !g : true);
  return value;
}

}  // namespace kcc
