#include "kcc/numeric/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kcc {
namespace {

struct Parts {
  uint64_t mantissa;
  int exponent;  // value = +-mantissa * 2^exponent
  bool negative;
};

Parts Split(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto field = static_cast<int>((bits >> 52) & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return {fraction | (uint64_t{field != 0} << 52), (field == 0 ? 1 : field) - 1075,
          (bits >> 63) != 0};
}

}  // namespace

template <int kLow, int kChunks>
void Superaccumulator<kLow, kChunks>::AddProduct(double a, double b) {
  const Parts x = Split(a);
  const Parts y = Split(b);
  if (x.mantissa == 0 || y.mantissa == 0) return;
  using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(x.mantissa) * y.mantissa;
  const int place = x.exponent + y.exponent - kLow;
  // The low and high 53 bits are added as two mantissas; each moves its chunks as one double does.
  const uint64_t low = static_cast<uint64_t>(product) & ((uint64_t{1} << 53) - 1);
  const auto high = static_cast<uint64_t>(product >> 53);
  const uint64_t negative = x.negative != y.negative;
  AddBits(low, place, negative);
  AddBits(high, place + 53, negative);
}

// A chunk holds 32 bits of the sum and has 64, so that many numbers can be added before a carry is
// due. Carrying changes the chunks and not the number they stand for.
template <int kLow, int kChunks>
void Superaccumulator<kLow, kChunks>::Carry() {
  pending_ = 0;
  if (first_ > last_) return;
  for (int i = first_; i < last_; ++i) {
    int64_t& chunk = chunks_[Index(i)];
    chunks_[Index(i + 1)] += chunk >> 32;
    chunk &= static_cast<int64_t>(kWordMask);
  }
  // A small negative top stays where it is: carried on, it would fill every chunk above with ones.
  constexpr int64_t kTopMax = int64_t{1} << 40;
  while (last_ + 1 < kChunks &&
         (chunks_[Index(last_)] >= kTopMax || chunks_[Index(last_)] <= -kTopMax)) {
    int64_t& chunk = chunks_[Index(last_)];
    ++last_;
    chunks_[Index(last_)] = chunk >> 32;
    chunk &= static_cast<int64_t>(kWordMask);
  }
}

template <int kLow, int kChunks>
void Superaccumulator<kLow, kChunks>::CarryAll() {
  Carry();
  if (first_ > last_) return;
  const int top = last_;
  Touch(first_, kChunks - 1);
  for (int i = top; i + 1 < kChunks; ++i) {
    int64_t& chunk = chunks_[Index(i)];
    chunks_[Index(i + 1)] += chunk >> 32;
    chunk &= static_cast<int64_t>(kWordMask);
  }
}

template <int kLow, int kChunks>
void Superaccumulator<kLow, kChunks>::Negate() {
  Carry();
  for (int i = first_; i <= last_; ++i) chunks_[Index(i)] = -chunks_[Index(i)];
  Carry();
}

template <int kLow, int kChunks>
CanonicalSum Superaccumulator<kLow, kChunks>::Canonical() const {
  Superaccumulator carried = *this;
  carried.Carry();
  CanonicalSum form;
  form.sign = 1;
  if (carried.Sign() < 0) {
    carried.Negate();
    form.sign = -1;
  }
  carried.CarryAll();
  int first = carried.first_;
  int last = carried.last_;
  while (first <= last && carried.chunks_[Index(first)] == 0) ++first;
  if (first > last) return {};
  while (carried.chunks_[Index(last)] == 0) --last;
  form.first = static_cast<uint32_t>(first);
  for (int i = first; i <= last; ++i) {
    form.words.push_back(static_cast<uint32_t>(carried.chunks_[Index(i)]));
  }
  return form;
}

template <int kLow, int kChunks>
bool Superaccumulator<kLow, kChunks>::Restore(const CanonicalSum& form) {
  Clear();
  if (form.words.empty()) return form.sign == 0 && form.first == 0;
  if (form.sign != 1 && form.sign != -1) return false;
  // The topmost chunk keeps its sign bit free.
  if (form.first >= kChunks || form.words.size() > size_t{kChunks} - form.first) return false;
  if (form.words.front() == 0 || form.words.back() == 0) return false;
  if (form.first + form.words.size() == kChunks && (form.words.back() >> 31) != 0) return false;
  Touch(static_cast<int>(form.first), static_cast<int>(form.first + form.words.size()) - 1);
  for (size_t i = 0; i < form.words.size(); ++i) chunks_[form.first + i] = form.words[i];
  if (form.sign < 0) Negate();
  return true;
}

template <int kLow, int kChunks>
int Superaccumulator<kLow, kChunks>::Sign() const {
  Superaccumulator carried = *this;
  carried.Carry();
  if (carried.first_ > carried.last_) return 0;
  // The chunks below the top add up to less than one unit of it.
  if (carried.chunks_[Index(carried.last_)] < 0) return -1;
  for (int i = carried.first_; i <= carried.last_; ++i) {
    if (carried.chunks_[Index(i)] != 0) return 1;
  }
  return 0;
}

template <int kLow, int kChunks>
double Superaccumulator<kLow, kChunks>::Round() const {
  Superaccumulator carried = *this;
  carried.Carry();
  if (carried.first_ > carried.last_) return 0;
  const bool negative = carried.chunks_[Index(carried.last_)] < 0;
  if (negative) carried.Negate();
  int top_chunk = carried.last_;
  while (top_chunk >= carried.first_ && carried.chunks_[Index(top_chunk)] == 0) --top_chunk;
  if (top_chunk < carried.first_) return 0;
  // The topmost chunk and the two below it hold more bits than a double; of all others it matters
  // only whether they are 0.
  using Wide = unsigned __int128;
  Wide bits = 0;
  for (int i = top_chunk; i > top_chunk - 3; --i) {
    bits =
        (bits << 32) + (i < carried.first_ ? 0 : static_cast<uint64_t>(carried.chunks_[Index(i)]));
  }
  bool sticky = false;
  for (int i = carried.first_; i < top_chunk - 2; ++i) {
    sticky = sticky || carried.chunks_[Index(i)] != 0;
  }
  const int base = kLow + 32 * (top_chunk - 2);          // exponent of the lowest of the bits
  const auto upper = static_cast<uint64_t>(bits >> 64);  // the topmost chunk, not 0
  const int top = 127 - std::countl_zero(upper);
  // The lowest bit of the result: 53 bits below the top, but no lower than a subnormal's.
  const int lowest = std::max(top - 52, -1074 - base);
  double magnitude = 0;
  if (lowest <= top + 1) {
    auto mantissa = static_cast<uint64_t>(bits >> lowest);
    const Wide half = Wide{1} << (lowest - 1);
    sticky = sticky || (bits & (half - 1)) != 0;
    if ((bits & half) != 0 && (sticky || (mantissa & 1) != 0)) ++mantissa;
    magnitude = std::ldexp(static_cast<double>(mantissa), base + lowest);
  }
  return negative ? -magnitude : magnitude;
}

template class Superaccumulator<-1074, 68>;
template class Superaccumulator<-1074 - 34 * 32, 136>;

int CompareToProduct(const ExactSum& sum, double factor, uint64_t count) {
  ExactProductSum difference;
  difference.MergeNarrow(sum);
  // A count above 2^53 is not a double: two factors of 32 bits are.
  difference.AddProduct(-factor, static_cast<double>(count & 0xffffffff));
  difference.AddProduct(-factor, static_cast<double>(count >> 32) * 4294967296.0);
  return difference.Sign();
}

}  // namespace kcc
