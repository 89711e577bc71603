// Doubles whose exponent does not end: the product of ten thousand ratios leaves double's range,
// and so does the square of one.
//
// A number with 2^-500 <= |x| < 2^500 is held as the double it is and computed with as such, to
// the bit; any other as m 2^e with 1 <= |m| < 2. Each operation rounds as double's would.
#pragma once

#include <cstdint>

namespace kcc {

class WideDouble {
 public:
  WideDouble() = default;
  WideDouble(double value) : mantissa_(value) { Settle(); }  // NOLINT: every double is one
  WideDouble(double mantissa, int64_t exponent) : mantissa_(mantissa), exponent_(exponent) {
    Settle();
  }

  // Rounded to double: infinite above its range, 0 below.
  double ToDouble() const { return exponent_ == 0 ? mantissa_ : FarToDouble(); }
  bool IsZero() const { return mantissa_ == 0; }

  WideDouble operator-() const;
  friend WideDouble operator+(const WideDouble& a, const WideDouble& b) {
    if ((a.exponent_ | b.exponent_) == 0) return WideDouble(a.mantissa_ + b.mantissa_);
    return AddAligned(a, b);
  }
  friend WideDouble operator-(const WideDouble& a, const WideDouble& b) { return a + -b; }
  friend WideDouble operator*(const WideDouble& a, const WideDouble& b);
  friend WideDouble operator/(const WideDouble& a, const WideDouble& b);
  WideDouble& operator+=(const WideDouble& other) { return *this = *this + other; }
  friend bool operator<(const WideDouble& a, const WideDouble& b) { return (a - b).mantissa_ < 0; }

  friend WideDouble Abs(const WideDouble& x) { return x.mantissa_ < 0 ? -x : x; }
  friend WideDouble Sqrt(const WideDouble& x);  // x >= 0

 private:
  static WideDouble AddAligned(WideDouble a, WideDouble b);
  void Settle() {
    const double size = mantissa_ < 0 ? -mantissa_ : mantissa_;
    if (exponent_ == 0 && ((size >= 0x1p-500 && size < 0x1p500) || size == 0)) return;
    SettleFar();
  }
  void SettleFar();
  double FarToDouble() const;
  void Spread();  // 1 <= |m| < 2, whatever the exponent

  double mantissa_ = 0;
  int64_t exponent_ = 0;
};

// e^x of any finite x.
WideDouble WideExp(double x);

}  // namespace kcc
