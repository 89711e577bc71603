// Sixteen virtual lanes on every target: element i of a row belongs to lane i mod 16, and a vector
// of 16, 8, 4 or 1 real lanes walks them in groups, so that a lane's sum has the same terms in the
// same order everywhere. Fused multiply-adds are written out and are fused on every target.
//
// Also the float32 polynomials for 2^r and e^x with their errors. Included once per target.
#if defined(KCC_NUMERIC_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KCC_NUMERIC_LANES_INL_H_
#undef KCC_NUMERIC_LANES_INL_H_
#else
#define KCC_NUMERIC_LANES_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kcc/numeric/exp_series.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr size_t kVirtualLanes = 16;
using FloatTag = hn::CappedTag<float, kVirtualLanes>;
using FloatVec = hn::Vec<FloatTag>;
using IntTag = hn::RebindToSigned<FloatTag>;
using UintTag = hn::RebindToUnsigned<FloatTag>;
using HalfWordTag = hn::Rebind<uint16_t, FloatTag>;
inline constexpr size_t kRealLanes = hn::MaxLanes(FloatTag());

HWY_INLINE FloatVec Set(float value) { return hn::Set(FloatTag(), value); }

// a b + c, rounded once.
HWY_INLINE FloatVec Fma(FloatVec a, FloatVec b, FloatVec c) {
#if HWY_TARGET == HWY_SCALAR
  return FloatVec(std::fma(a.raw, b.raw, c.raw));
#else
  return hn::MulAdd(a, b, c);
#endif
}

// a b - c, rounded once.
HWY_INLINE FloatVec Fms(FloatVec a, FloatVec b, FloatVec c) {
#if HWY_TARGET == HWY_SCALAR
  return FloatVec(std::fma(a.raw, b.raw, -c.raw));
#else
  return hn::MulSub(a, b, c);
#endif
}

// c - a b, rounded once.
HWY_INLINE FloatVec Fnma(FloatVec a, FloatVec b, FloatVec c) {
#if HWY_TARGET == HWY_SCALAR
  return FloatVec(std::fma(-a.raw, b.raw, c.raw));
#else
  return hn::NegMulAdd(a, b, c);
#endif
}

// Rows of float32, or of bfloat16 as their bits.
HWY_INLINE FloatVec LoadFloats(const float* from) { return hn::LoadU(FloatTag(), from); }
HWY_INLINE FloatVec LoadFloats(const uint16_t* from) {
#if HWY_TARGET == HWY_AVX3
  // One shuffle that puts the words into the upper halves, where Highway has a shuffle and a shift.
  const __m512i upper =
      _mm512_set_epi32(15 << 16, 14 << 16, 13 << 16, 12 << 16, 11 << 16, 10 << 16, 9 << 16, 8 << 16,
                       7 << 16, 6 << 16, 5 << 16, 4 << 16, 3 << 16, 2 << 16, 1 << 16, 0);
  const __m512i words =
      _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  return FloatVec{_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xAAAAAAAAu, upper, words))};
#elif HWY_TARGET == HWY_AVX2
  // The load itself copies the words into both halves of the register; again one shuffle.
  const __m256i upper = _mm256_set_epi8(15, 14, -1, -1, 13, 12, -1, -1, 11, 10, -1, -1, 9, 8, -1,
                                        -1, 7, 6, -1, -1, 5, 4, -1, -1, 3, 2, -1, -1, 1, 0, -1, -1);
  const __m256i words =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return FloatVec{_mm256_castsi256_ps(_mm256_shuffle_epi8(words, upper))};
#else
  const auto bits = hn::PromoteTo(UintTag(), hn::LoadU(HalfWordTag(), from));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(bits));
#endif
}

// Entry (index mod 8) of a table of eight. Not Highway's lookup, which wants the index masked.
struct TableOf8 {
#if HWY_TARGET == HWY_NEON
  uint8x16x2_t entries;  // as bytes: NEON looks up bytes only
#else
  FloatVec entries;
#endif
  const uint32_t* source;
};

HWY_INLINE TableOf8 LoadTable(const uint32_t (&source)[8]) {
#if HWY_TARGET == HWY_SCALAR
  return {Set(0), source};
#elif HWY_TARGET == HWY_AVX3
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
  return {FloatVec{_mm512_castsi512_ps(_mm512_broadcast_i64x4(half))}, source};
#elif HWY_TARGET == HWY_NEON
  const auto* bytes = reinterpret_cast<const uint8_t*>(source);
  return {{{vld1q_u8(bytes), vld1q_u8(bytes + 16)}}, source};
#else
  return {hn::BitCast(FloatTag(), hn::LoadU(UintTag(), source)), source};
#endif
}

HWY_INLINE FloatVec LookUp(const TableOf8& table, FloatVec index) {
#if HWY_TARGET == HWY_SCALAR
  const uint32_t bits = hn::GetLane(hn::BitCast(UintTag(), index));
  return hn::BitCast(FloatTag(), hn::Set(UintTag(), table.source[bits % 8]));
#elif HWY_TARGET == HWY_AVX3
  return FloatVec{_mm512_permutexvar_ps(_mm512_castps_si512(index.raw), table.entries.raw)};
#elif HWY_TARGET == HWY_NEON
  // The four bytes of entry j are 4 j, 4 j + 1, ...: the product copies 4 j into every byte.
  const uint32x4_t entry = vandq_u32(vreinterpretq_u32_f32(index.raw), vdupq_n_u32(7));
  const uint32x4_t bytes = vmlaq_u32(vdupq_n_u32(0x03020100), entry, vdupq_n_u32(0x04040404));
  return FloatVec{vreinterpretq_f32_u8(vqtbl2q_u8(table.entries, vreinterpretq_u8_u32(bytes)))};
#else
  return FloatVec{_mm256_permutevar8x32_ps(table.entries.raw, _mm256_castps_si256(index.raw))};
#endif
}

// 2^(a scale - exponent) in eighths: t = a scale + rounding has the nearest eighth in its last
// three bits, and a table has 2^(j/8), its exponent less by what those bits add to it. Over the
// remaining |r| <= 1/16 a cubic is within 2.7e-8. t grows with a, so its bits find the largest a.
// rounding is 1.5 * 2^20 - exponent.
inline constexpr uint32_t kExp2Table[8] = {0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7,
                                           0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7};

HWY_INLINE FloatVec Exp2Excess(FloatVec r) {
  FloatVec sum = Fma(r, Set(0.0554962233f), Set(0.240257636f));
  sum = Fma(r, sum, Set(0.693147242f));
  return hn::Mul(r, sum);
}

HWY_INLINE FloatVec Exp2Whole(const TableOf8& table, FloatVec t) {
  const auto power = hn::ShiftLeft<20>(hn::BitCast(IntTag(), t));
  return hn::BitCast(FloatTag(), hn::Add(hn::BitCast(IntTag(), LookUp(table, t)), power));
}

// The halves of e^x - 1 by their series in u = x^2 (exp_series.h).
template <size_t kTerms>
HWY_INLINE FloatVec SeriesIn(FloatVec u, const float (&terms)[kTerms]) {
  FloatVec sum = Set(terms[0]);
  for (size_t k = 1; k < kTerms; ++k) sum = Fma(u, sum, Set(terms[k]));
  return sum;
}

template <int kRange>
HWY_INLINE FloatVec EvenSeries(FloatVec u) {
  return SeriesIn(u, ExpSeries<kRange>::kEven);
}

template <int kRange>
HWY_INLINE FloatVec OddSeries(FloatVec u) {
  return SeriesIn(u, ExpSeries<kRange>::kOdd);
}

// e^x for |x| <= 86, relative error below 2e-7.
HWY_INLINE FloatVec ExpWide(FloatVec x) {
  const FloatVec round = Set(12582912.0f);  // 1.5 * 2^23
  const FloatVec t = Fma(x, Set(1.44269504f), round);
  const FloatVec n = hn::Sub(t, round);
  FloatVec r = Fnma(n, Set(0.693145752f), x);
  r = Fnma(n, Set(1.42860677e-06f), r);
  FloatVec sum = Fma(r, Set(0.00138146023f), Set(0.00836871564f));
  sum = Fma(r, sum, Set(0.041668389f));
  sum = Fma(r, sum, Set(0.166665211f));
  sum = Fma(r, sum, Set(0.49999994f));
  const FloatVec y = hn::Add(Fma(hn::Mul(r, r), sum, r), Set(1.0f));
  const auto bits = hn::Add(hn::BitCast(IntTag(), y), hn::ShiftLeft<23>(hn::BitCast(IntTag(), t)));
  return hn::BitCast(FloatTag(), bits);
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#endif  // per target
