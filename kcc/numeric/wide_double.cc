#include "kcc/numeric/wide_double.h"

#include <algorithm>
#include <cmath>

#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// Below this, nothing is left of the smaller of two numbers beside the larger.
constexpr int64_t kApart = 1000;

double Shifted(double mantissa, int64_t exponent) {
  constexpr int64_t kFar = 4000;
  return std::ldexp(mantissa, static_cast<int>(std::clamp(exponent, -kFar, kFar)));
}

}  // namespace

double WideDouble::FarToDouble() const { return Shifted(mantissa_, exponent_); }

// A number is held plainly, with exponent 0, as long as a double can hold it with room to spare;
// else spread, with its mantissa in [1, 2). Sums and products are then plain double arithmetic in
// the common case, and nothing overflows in the other.
void WideDouble::Spread() {
  if (mantissa_ == 0 || !std::isfinite(mantissa_)) return;
  int shift = 0;
  mantissa_ = 2 * std::frexp(mantissa_, &shift);
  exponent_ += shift - 1;
}

void WideDouble::SettleFar() {
  if (mantissa_ == 0 || !std::isfinite(mantissa_)) {
    exponent_ = 0;
    return;
  }
  Spread();
  if (exponent_ < -500 || exponent_ >= 500) return;
  mantissa_ = Shifted(mantissa_, exponent_);
  exponent_ = 0;
}

WideDouble WideDouble::operator-() const {
  WideDouble out = *this;
  out.mantissa_ = -out.mantissa_;
  return out;
}

WideDouble WideDouble::AddAligned(WideDouble a, WideDouble b) {
  if (a.IsZero()) return b;
  if (b.IsZero()) return a;
  // Aligned to the larger: the smaller loses bits that the sum could not show.
  a.Spread();
  b.Spread();
  if (a.exponent_ < b.exponent_) std::swap(a, b);
  const int64_t shift = b.exponent_ - a.exponent_;
  const double rest = shift < -kApart ? 0 : Shifted(b.mantissa_, shift);
  return {a.mantissa_ + rest, a.exponent_};
}

WideDouble operator*(const WideDouble& a, const WideDouble& b) {
  return {a.mantissa_ * b.mantissa_, a.exponent_ + b.exponent_};
}

WideDouble operator/(const WideDouble& a, const WideDouble& b) {
  return {a.mantissa_ / b.mantissa_, a.exponent_ - b.exponent_};
}

WideDouble Sqrt(const WideDouble& x) {
  const int64_t odd = x.exponent_ & 1;
  return {std::sqrt(odd != 0 ? 2 * x.mantissa_ : x.mantissa_), (x.exponent_ - odd) / 2};
}

WideDouble WideExp(double x) {
  const ScaledExponential scaled = ExpScaled(x);
  return {scaled.mantissa, scaled.exponent};
}

}  // namespace kcc
