// The float32 polynomials for e^x - 1 near 0, by its even and odd halves: with u = x^2,
//   cosh x - 1 = u C(u),  sinh x - x = x u S(u),  e^x - 1 - x = u (C(u) + x S(u)).
//
// Their errors, but for the rounding of float32, relative to x^2/2: 1.18e-7, 3.13e-8 and 1.48e-7 in
// the ranges to 1/8, 1/2 and 2. In the nearest range e^x - 1 alone is meant, within 2.27e-8 of
// itself. exp_series_test.cc measures them.
#pragma once

namespace kcc {

// Up to |x| = 1/16, 1/8, 1/2, 2; beyond, the series of the last are used near 0 only.
enum ExpRange : int { kNearest, kWithin1Over8, kWithin1Over2, kWithin2, kWide, kRanges };

// Coefficients from the last to the first.
template <int kRange>
struct ExpSeries {
  static constexpr float kEven[] = {2.96679787e-07f, 2.4729763e-05f, 0.00138898462f, 0.0416666269f,
                                    0.5f};
  static constexpr float kOdd[] = {2.99042676e-06f, 0.00019769877f, 0.00833413284f, 0.166666418f};
};
template <>
struct ExpSeries<kNearest> {
  static constexpr float kEven[] = {0.0416720919f, 0.5f};
  static constexpr float kOdd[] = {0.166693598f};
};
template <>
struct ExpSeries<kWithin1Over8> {
  static constexpr float kEven[] = {0.0416846499f, 0.5f};
  static constexpr float kOdd[] = {0.00833720993f, 0.166666657f};
};
template <>
struct ExpSeries<kWithin1Over2> {
  static constexpr float kEven[] = {0.00139754952f, 0.0416659974f, 0.5f};
  static constexpr float kOdd[] = {0.000199621965f, 0.00833318196f, 0.166666672f};
};

}  // namespace kcc
