// What one entry adds to the sums of its row: e = 2^(a log2(e)/tau - K), x = (b - a - c)/tau and
// E = e^x - 1, in the forms of drift/row_end.cc, where no sum cancels while c is near delta.
//
// One exponential an entry; E comes from its even and odd halves, C = (cosh x - 1)/x^2 and
// O = (sinh x - x)/x^3, as short as the range of x allows.
#pragma once

#include <climits>

#include "kcc/drift/cuda/device_types.cuh"

namespace kcc {

enum TermRange { kNearestRange, kCloseRange, kSmallRange, kMediumRange, kWholeRange };
inline constexpr float kNearestEnd = 0.0625f;  // for tv alone
inline constexpr float kCloseEnd = 0.09375f;
inline constexpr float kSmallEnd = 0.25f;
inline constexpr float kMediumEnd = 1.0f;
inline constexpr float kWholeEnd = 32.0f;  // beyond it the row is measured in double

inline constexpr int kLaneSums = 10;
struct LaneSums {
  // e, q, e (E - x), e (cosh x - 1), q x, q E, e t, q t, y, y^2; t is the exponent of e, and y the
  // difference b - a, or x where the whole row is shifted.
  float sum[kLaneSums] = {};
  float fifths = 0;  // of AddMoments alone
  // Extremes of y from the bits of floats: as signed integers the largest are the positive ones,
  // as unsigned integers the most negative. Where y does not take both signs one of them is
  // unknown (ExtremesOf).
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

inline constexpr float kLeastNormal = 1.17549435e-38f;

// Of normal numbers: it takes others for 0.
__device__ __forceinline__ float InverseApprox(float value) {
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(value));
  return out;
}

// x. `kWide`: the logits are floats, and what the subtraction lost (Knuth's two-sum) is added, or a
// large shift would drown it.
template <bool kWide>
__device__ __forceinline__ float Moved(float a, float b, float y, float inverse_tau, float shift) {
  const float x = fmaf(y, inverse_tau, -shift);
  if constexpr (kWide) {
    const float b_part = y + a;
    const float lost = (b - b_part) + ((b_part - y) - a);
    return fmaf(lost, inverse_tau, x);
  }
  return x;
}

struct Excess {
  float excess;    // E
  float residual;  // (E - x) / x^2, or E - x itself where x is far
  float even;      // C, or cosh x - 1 itself where x is far
};

// Errors relative to the series' value: 2.0e-6 up to |x| = 1/4 in the small range, its last
// coefficients being a little larger than the series' own; 7e-7 at |x| = 1.
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

// E - slope; where x is small by Horner, which shares nothing with other terms and so costs least.
// Within 2.6e-6 of E in the three ranges. In the nearest one x^4/24 is spread over the lower
// terms: x^3 is 3/4 h^2 x to within h^3/4 up to h.
template <TermRange kRange>
__device__ __forceinline__ float ExcessLess(float x, float slope) {
  if constexpr (kRange <= kSmallRange) {
    float sum = 0.16666667f;
    if constexpr (kRange == kCloseRange) sum = fmaf(x, 0.041666667f, sum);
    if constexpr (kRange == kSmallRange) sum = fmaf(x, fmaf(x, 0.0083456f, 0.041666667f), sum);
    sum = fmaf(x, sum, kRange == kNearestRange ? 0.50012207f : 0.5f);
    sum = fmaf(x, sum, 1.0f);
    return fmaf(x, sum, -slope);
  }
  const float near = NearTerms<kRange>(x, x * x).excess;
  if constexpr (kRange == kMediumRange) return near - slope;
  const float excess = fabsf(x) > kMediumEnd ? Exp2Approx(x * 1.44269504f) - 1.0f : near;
  return excess - slope;
}

// `counts` (if masked): false for the pivot, which is carried apart, and beyond the row's end.
template <TermRange kRange, bool kMasked, bool kSquare>
__device__ __forceinline__ void AddTerms(float a, float x, float scale, float minus_k, bool counts,
                                         LaneSums* sums, float* e_out = nullptr,
                                         float* q_out = nullptr) {
  const float t = fmaf(a, scale, minus_k);
  float e = Exp2Approx(t);
  if constexpr (kMasked) e = counts ? e : 0.0f;
  float u = x * x;
  Excess terms = NearTerms<kRange>(x, u);
  float weight = e * u;
  if constexpr (kRange == kWholeRange) {
    const float up = Exp2Approx(x * 1.44269504f);
    const float down = Exp2Approx(x * -1.44269504f);
    const bool far = fabsf(x) > kMediumEnd;
    terms.excess = far ? up - 1.0f : terms.excess;
    terms.residual = far ? (up - 1.0f) - x : terms.residual;
    terms.even = far ? fmaf(0.5f, up + down, -1.0f) : terms.even;
    weight = far ? e : weight;
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
  if (e_out != nullptr) *e_out = e;
  if (q_out != nullptr) *q_out = q;
}

// In the close range the moments of x do for all of them: M_k = sum e x^k and N_k = sum e t x^k.
// While a row is visited the places of LaneSums hold M_0, M_1, M_2, M_3, M_4, N_1, N_0, N_2. sum e
// E^2 leans on M_5, which is then in `fifths`.
template <bool kSquare>
__device__ __forceinline__ void AddMoments(float a, float x, float scale, float minus_k,
                                           LaneSums* sums) {
  const float t = fmaf(a, scale, minus_k);
  const float e = Exp2Approx(t);
  const float first = e * x;
  const float second = first * x;
  const float third = second * x;
  float* s = sums->sum;
  s[0] += e;
  s[1] += first;
  s[2] += second;
  s[3] += third;
  if constexpr (kSquare) {
    const float fourth = third * x;
    s[4] += fourth;
    sums->fifths = fmaf(fourth, x, sums->fifths);
  } else {
    s[4] = fmaf(third, x, s[4]);
  }
  s[5] = fmaf(first, t, s[5]);
  s[6] = fmaf(e, t, s[6]);
  s[7] = fmaf(second, t, s[7]);
}

// From moments to the sums as they are defined. The next moments, which matter little, are as if x,
// weighed by e x^2, were spread evenly about its mean M_3 / M_2: exact where one x stands for all,
// and within a tenth where two unlike ones do.
template <bool kSquare>
__device__ __forceinline__ void FromMoments(LaneSums* sums) {
  float* s = sums->sum;
  const float m1 = s[1], m2 = s[2], m3 = s[3], m4 = s[4], n1 = s[5], n2 = s[7];
  // Where all weights of a lane are as good as nothing, so are its next moments.
  const float inverse = m2 >= kLeastNormal ? InverseApprox(m2) : 0.0f;
  const float mean = m3 * inverse;
  const float square = m4 * inverse;
  const float m5 = kSquare ? sums->fifths : m3 * fmaf(-2.0f * mean, mean, 3.0f * square);
  const float m6 = m4 * square;
  const float n3 = n2 * mean;
  const float n4 = n2 * square;
  const float c2 = 0.5f, c3 = 0.16666667f, c4 = 0.041666667f, c5 = 0.0083333333f;
  const float residual = fmaf(m2, c2, fmaf(m3, c3, fmaf(m4, c4, m5 * c5)));
  s[1] = m1 + residual;
  s[2] = residual;
  s[3] = fmaf(m2, c2, m4 * c4);
  s[4] = m2 + fmaf(m3, c2, fmaf(m4, c3, fmaf(m5, c4, m6 * c5)));
  if constexpr (kSquare) {
    s[5] = m2 + fmaf(m4, 0.58333333f, fmaf(m5, 0.25f, fmaf(m6, 0.086111111f, m3)));
  }
  s[7] = n1 + fmaf(n2, c2, fmaf(n3, c3, n4 * c4));
}

// What a warp's lanes have is joined by a fixed tree. Halves of a list change lanes at each step,
// so that three sums cost six exchanges and eight cost nine.
template <class Value, class Join>
__device__ __forceinline__ Value SwapAndJoin(Value first, Value second, int lane, int mask,
                                             const Join& join) {
  const bool upper = (lane & mask) != 0;
  const Value keep = upper ? second : first;
  const Value give = upper ? first : second;
  return join(keep, __shfl_xor_sync(0xffffffffu, give, mask));
}
__device__ __forceinline__ float SwapAdd(float first, float second, int lane, int mask) {
  return SwapAndJoin(first, second, lane, mask, [](float a, float b) { return a + b; });
}

// Lane ReducedThree(k) gets the k-th sum.
__device__ __forceinline__ float ReduceThree(float first, float second, float third, int lane) {
  float value = SwapAdd(SwapAdd(first, second, lane, 16), SwapAdd(third, 0.0f, lane, 16), lane, 8);
  for (int mask = 4; mask > 0; mask >>= 1) value += __shfl_xor_sync(0xffffffffu, value, mask);
  return value;
}
__device__ __forceinline__ constexpr int ReducedThree(int which) {
  return which == 0 ? 0 : which == 1 ? 16 : 8;
}

// Lane l gets the sum bits 4, 3, 2 of l name, 4 being the lowest.
__device__ __forceinline__ float ReduceEight(const float* sum, int lane) {
  float four[4], two[2];
  for (int i = 0; i < 4; ++i) four[i] = SwapAdd(sum[2 * i], sum[2 * i + 1], lane, 16);
  for (int i = 0; i < 2; ++i) two[i] = SwapAdd(four[2 * i], four[2 * i + 1], lane, 8);
  float value = SwapAdd(two[0], two[1], lane, 4);
  value += __shfl_xor_sync(0xffffffffu, value, 2);
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value;
}
__device__ __forceinline__ int ReducedEight(int lane) {
  return (lane >> 4 & 1) | (lane >> 2 & 2) | (lane & 4);
}

}  // namespace kcc
