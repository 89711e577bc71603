// Exact sums of doubles and of products of doubles: a small superaccumulator (R. M. Neal 2015,
// arXiv 1505.05571). The number is held in fixed point, one 64-bit chunk for every 32 bits of the
// exponent range, so that additions commute: the same values give the same state whatever the
// order, the threads or the shards, and the one rounding happens when a double is asked for.
//
// Products are formed in integers (106 bits), so neither overflow nor underflow can lose a bit.
// Infinities and NaN are counted apart and never enter the sum.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace kcc {

// A sum in the only form that equal sums share: sign and magnitude, no leading or trailing zeros.
struct CanonicalSum {
  int sign = 0;                 // -1, 0, 1
  uint32_t first = 0;           // index of the lowest non-zero 32-bit word
  std::vector<uint32_t> words;  // from `first` upwards; empty for zero

  bool operator==(const CanonicalSum&) const = default;
};

// kLow: the exponent of the lowest bit held. kChunks * 32 bits are held from there.
template <int kLow, int kChunks>
class Superaccumulator {
 public:
  static constexpr int kLowExponent = kLow;
  static constexpr int kChunkCount = kChunks;

  Superaccumulator() {}
  Superaccumulator(const Superaccumulator& other) { *this = other; }
  Superaccumulator& operator=(const Superaccumulator& other) {
    first_ = other.first_;
    last_ = other.last_;
    pending_ = other.pending_;
    for (int i = first_; i <= last_; ++i) chunks_[Index(i)] = other.chunks_[Index(i)];
    return *this;
  }

  // Precondition: finite.
  void Add(double value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    const auto exponent = static_cast<int>((bits >> 52) & 0x7ff);
    const uint64_t mantissa = (bits & kMantissaMask) | (uint64_t{exponent != 0} << 52);
    const int place = (exponent == 0 ? 1 : exponent) - 1075 - kLow;
    AddBits(mantissa, place, bits >> 63);
  }

  // Adds a * b exactly. Precondition: both finite, and kLow reaches the product's lowest bit.
  void AddProduct(double a, double b);

  void Merge(const Superaccumulator& other) {
    if (other.first_ > other.last_) return;
    if (pending_ + other.pending_ + 1 > kPendingMax) {
      Carry();
      Superaccumulator carried = other;
      carried.Carry();
      AddChunks(carried);
      pending_ = 1;
      return;
    }
    AddChunks(other);
    pending_ += other.pending_ + 1;
  }

  void Negate();
  void Clear() {
    first_ = kChunks;
    last_ = -1;
    pending_ = 0;
  }

  // Adds a sum that is held with fewer low bits. Precondition: kLow differs by whole chunks.
  template <int kOtherLow, int kOtherChunks>
  void MergeNarrow(const Superaccumulator<kOtherLow, kOtherChunks>& other) {
    static_assert(kOtherLow >= kLow && (kOtherLow - kLow) % 32 == 0);
    constexpr int kOffset = (kOtherLow - kLow) / 32;
    static_assert(kOffset + kOtherChunks <= kChunks);
    auto carried = other;
    carried.Carry();
    Carry();
    if (carried.first() <= carried.last()) {
      Touch(carried.first() + kOffset, carried.last() + kOffset);
    }
    for (int i = carried.first(); i <= carried.last(); ++i) {
      chunks_[Index(i + kOffset)] += carried.chunk(i);
    }
    pending_ = 1;
  }

  // The sign of the exact sum.
  int Sign() const;
  // Rounded once, to nearest, ties to even; +-inf beyond the largest double.
  double Round() const;

  CanonicalSum Canonical() const;
  // False if the form is not canonical or lies outside the range held.
  bool Restore(const CanonicalSum& form);

  bool operator==(const Superaccumulator& other) const { return Canonical() == other.Canonical(); }

  // Brings every chunk in use but the topmost into [0, 2^32), and that one below 2^40.
  void Carry();
  // Precondition: in use.
  int64_t chunk(int i) const { return chunks_[Index(i)]; }
  // The chunks in use; all others stand for 0. first() > last(): none is.
  int first() const { return first_; }
  int last() const { return last_; }

 private:
  static constexpr uint64_t kMantissaMask = (uint64_t{1} << 52) - 1;
  static constexpr uint64_t kWordMask = 0xffffffff;
  // An addition moves a chunk by less than 2^52; 2^63 / 2^52 of them fit, less the carried rest.
  static constexpr int kPendingMax = 2046;

  static constexpr size_t Index(int i) { return static_cast<size_t>(i); }

  // Brings the chunks from `first` to `last` into use.
  void Touch(int first, int last) {
    if (first < first_ || last > last_) Extend(first, last);
  }
  void Extend(int first, int last) {
    if (first_ > last_) {
      first_ = first;
      last_ = first - 1;
    }
    while (first_ > first) chunks_[Index(--first_)] = 0;
    while (last_ < last) chunks_[Index(++last_)] = 0;
  }

  void AddChunks(const Superaccumulator& other) {
    Touch(other.first_, other.last_);
    for (int i = other.first_; i <= other.last_; ++i) chunks_[Index(i)] += other.chunks_[Index(i)];
  }

  // Carries up to the very top: the sign is then that of the topmost chunk.
  void CarryAll();

  void AddBits(uint64_t mantissa, int place, uint64_t negative) {
    if (pending_ >= kPendingMax) Carry();
    ++pending_;
    const int shift = place & 31;
    const int at = place >> 5;
    Touch(at, at + 1);
    int64_t* chunk = &chunks_[Index(at)];
    const auto low = static_cast<int64_t>((mantissa << shift) & kWordMask);
    const auto high = static_cast<int64_t>(mantissa >> (32 - shift));
    const auto mask = -static_cast<int64_t>(negative);  // conditional negation without a branch
    chunk[0] += (low ^ mask) - mask;
    chunk[1] += (high ^ mask) - mask;
  }

  // Sums mostly live in a few chunks: only those from first_ to last_ are ever written or read.
  std::array<int64_t, Index(kChunks)> chunks_;
  int first_ = kChunks;
  int last_ = -1;
  int pending_ = 0;  // additions since the last carry
};

// Any sum of up to 2^64 doubles.
using ExactSum = Superaccumulator<-1074, 68>;
// Any sum of up to 2^64 products of two doubles; its words line up with those of ExactSum.
using ExactProductSum = Superaccumulator<-1074 - 34 * 32, 136>;

extern template class Superaccumulator<-1074, 68>;
extern template class Superaccumulator<-1074 - 34 * 32, 136>;

// The sign of sum - factor * count, exactly: decides `mean <= t` without a rounding.
int CompareToProduct(const ExactSum& sum, double factor, uint64_t count);

}  // namespace kcc
