#include "kcc/numeric/wide_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace kcc {
namespace {

constexpr int64_t kNowhere = std::numeric_limits<int64_t>::min() / 4;
constexpr int64_t kBlockMax = int64_t{1} << 48;

// 2^k, 0 <= k <= 1023.
double PowerOfTwo(int64_t k) {
  return std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52);
}

struct Placed {
  double mantissa;  // in [1, 2)
  int64_t exponent;
};

Placed Locate(double mantissa, int64_t exponent) {
  if (mantissa >= 1 && mantissa < 2) return {mantissa, exponent};
  int shift = 0;
  const double half = std::frexp(mantissa, &shift);
  return {2 * half, exponent + shift - 1};
}

// Floors: -1 is of block -1.
int64_t BlockOf(int64_t exponent) { return exponent >> 9; }
int64_t InBlock(int64_t exponent) { return exponent & (WideSum::kBlockBits - 1); }

// A sum's leading bits, at least 161 of them, in parts of 48 bits. Exact: an ExactSum has no bit
// below a double's lowest. Precondition: the sum is below the largest double.
std::array<double, 4> LeadingParts(const ExactSum& sum) {
  const CanonicalSum form = sum.Canonical();
  std::array<uint64_t, 6> words = {};  // from the topmost down
  for (size_t i = 0; i < std::min(words.size(), form.words.size()); ++i) {
    words[i] = form.words[form.words.size() - 1 - i];
  }
  const uint64_t integers[] = {
      words[0] << 16 | words[1] >> 16, (words[1] & 0xffff) << 32 | words[2],
      words[3] << 16 | words[4] >> 16, (words[4] & 0xffff) << 32 | words[5]};
  // Of the lowest bit of words[2].
  const int middle = ExactSum::kLowExponent +
                     32 * (static_cast<int>(form.first) + static_cast<int>(form.words.size()) - 3);
  std::array<double, 4> parts = {};
  for (int i = 0; i < 4; ++i) {
    const auto at = static_cast<size_t>(i);
    parts[at] = form.sign * std::ldexp(static_cast<double>(integers[at]), middle + 48 * (1 - i));
  }
  return parts;
}

}  // namespace

// Invariant: top_ is of the highest block seen, below_ of the one under it; what lies lower is
// dropped. It is below 2^-511 of the largest term, which no result can show. Which blocks are kept
// follows from the largest term alone, so the order of adding cannot be seen.
ExactSum* WideSum::At(int64_t block) {
  if (!empty() && block < block_) return block == block_ - 1 ? &below_ : nullptr;
  if (empty() || block > block_) {
    if (!empty() && block == block_ + 1) {
      below_ = top_;
    } else {
      below_.Clear();
    }
    top_.Clear();
    block_ = block;
  }
  return &top_;
}

void WideSum::Add(double mantissa, int64_t exponent) {
  const Placed at = Locate(mantissa, exponent);
  if (ExactSum* sum = At(BlockOf(at.exponent))) {
    sum->Add(at.mantissa * PowerOfTwo(InBlock(at.exponent)));
  }
}

void WideSum::AddSquare(double mantissa, int64_t exponent) {
  const Placed at = Locate(mantissa, exponent);
  if (ExactSum* sum = At(BlockOf(2 * at.exponent))) {
    sum->AddProduct(at.mantissa * PowerOfTwo(InBlock(2 * at.exponent)), at.mantissa);
  }
}

void WideSum::Merge(const WideSum& other) {
  if (other.empty()) return;
  if (ExactSum* sum = At(other.block_)) sum->Merge(other.top_);
  if (other.block_ - 1 < block_ - 1) return;
  // The other's top made this block the top, or was it before.
  below_.Merge(other.below_);
}

bool WideSum::Restore(int64_t block, const ExactSum& top, const ExactSum& below) {
  // At least one number of at least 1; fewer than 2^64 below 2^513 each.
  const auto sound = [](const ExactSum& sum) {
    const double value = sum.Round();
    return value >= 1 && value < 0x1p577;
  };
  const bool has_below = below.Sign() != 0;
  if (block < -kBlockMax || block > kBlockMax) return false;
  if (top.Sign() == 0) {
    *this = WideSum();
    return block == 0 && !has_below;
  }
  if (!sound(top) || (has_below && !sound(below))) return false;
  block_ = block;
  top_ = top;
  below_ = below;
  return true;
}

int64_t WideSum::LeadingExponent() const {
  return empty() ? kNowhere : block_ * kBlockBits + std::ilogb(top_.Round());
}

void WideTotal::Add(double value, int64_t exponent) {
  const int64_t shift = exponent - unit_;
  if (value == 0 || shift < -2000) return;
  const double scaled = std::ldexp(value, static_cast<int>(std::min<int64_t>(shift, 2000)));
  if (std::isfinite(scaled)) sum_.Add(scaled);
}

void WideTotal::Add(const ExactSum& sum, double factor, int64_t exponent) {
  if (factor == 1 && exponent == unit_) {
    sum_.Merge(sum);
    return;
  }
  for (const double part : LeadingParts(sum)) Add(factor * part, exponent);
}

void WideTotal::Add(const WideSum& sum, double factor) {
  if (sum.empty()) return;
  Add(sum.top(), factor, sum.block() * WideSum::kBlockBits);
  Add(sum.below(), factor, (sum.block() - 1) * WideSum::kBlockBits);
}

WideDouble SpreadOf(uint64_t count, const WideTotal& sum, const WideTotal& squares) {
  ExactProductSum spread;
  for (const double part : LeadingParts(squares.sum())) {
    // A count above 2^53 is not a double: two factors of 32 bits are.
    spread.AddProduct(part, static_cast<double>(count & 0xffffffff));
    spread.AddProduct(part, static_cast<double>(count >> 32) * 4294967296.0);
  }
  const std::array<double, 4> parts = LeadingParts(sum.sum());
  for (const double a : parts) {
    for (const double b : parts) spread.AddProduct(-a, b);
  }
  return {std::max(0.0, spread.Round()), squares.unit()};
}

WideDouble WideRound(const ExactSum& sum) {
  const double rounded = sum.Round();
  if (std::isfinite(rounded)) return rounded;
  const CanonicalSum form = sum.Canonical();
  const size_t lowest = form.words.size() - std::min<size_t>(form.words.size(), 3);
  double leading = 0;
  for (size_t i = form.words.size(); i-- > lowest;) {
    leading = leading * 4294967296.0 + form.words[i];
  }
  return {form.sign * leading,
          ExactSum::kLowExponent + 32 * static_cast<int64_t>(form.first + lowest)};
}

}  // namespace kcc
