#include "kcc/lab/rope.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/dtype.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

float RoundBF16(float value) { return BF16ToFloat(FloatToBF16(value)); }

double AngleOf(size_t position, double frequency, AnglePrecision precision) {
  switch (precision) {
    case AnglePrecision::kF64:
      return static_cast<double>(position) * frequency;
    case AnglePrecision::kF32:
      return static_cast<float>(position) * static_cast<float>(frequency);
    case AnglePrecision::kBF16:
      return RoundBF16(RoundBF16(static_cast<float>(position)) *
                       RoundBF16(static_cast<float>(frequency)));
  }
  return 0;
}

}  // namespace

void CosSin(double x, double* cosine, double* sine) {
  // x = k pi/2 + r with pi/2 in three parts of 33 bits, so that k times the first two is exact.
  const double k = std::floor(x * 0.63661977236758134308 + 0.5);
  double r = x - k * 1.57079632673412561417e+00;
  r -= k * 6.07710050630396597660e-11;
  r -= k * 2.02226624879595063154e-21;
  const double u = r * r;
  // Taylor series; |r| <= pi/4, so that the first term left out is below 2e-18.
  double c = -1.0 / 6.402373705728e15;  // to r^18
  double s = 0;
  constexpr double kCos[] = {1.0 / 20922789888000.0,
                             -1.0 / 87178291200.0,
                             1.0 / 479001600.0,
                             -1.0 / 3628800.0,
                             1.0 / 40320.0,
                             -1.0 / 720.0,
                             1.0 / 24.0,
                             -0.5,
                             1.0};
  constexpr double kSin[] = {-1.0 / 121645100408832000.0,
                             1.0 / 355687428096000.0,
                             -1.0 / 1307674368000.0,
                             1.0 / 6227020800.0,
                             -1.0 / 39916800.0,
                             1.0 / 362880.0,
                             -1.0 / 5040.0,
                             1.0 / 120.0,
                             -1.0 / 6.0,
                             1.0};
  for (const double term : kCos) c = c * u + term;
  for (const double term : kSin) s = s * u + term;
  s *= r;
  const auto quadrant = static_cast<long>(k) & 3;
  *cosine = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
  *sine = quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c;
}

std::vector<double> RopeFrequencies(const ModelConfig& config) {
  constexpr double kTurn = 6.28318530717958647693;
  const RopeScaling& scaling = config.rope_scaling;
  std::vector<double> frequencies(config.head_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim);
    double frequency = Exp(exponent * Log(config.rope_theta));
    if (scaling.kind == RopeScaling::Kind::kLinear) frequency /= scaling.factor;
    if (scaling.kind == RopeScaling::Kind::kLlama3) {
      // Waves that fit `high` times into the original positions keep their frequency, those that
      // fit less than `low` times have it divided, and between them it goes over in proportion to
      // how often they fit.
      const double fits = scaling.original_positions * frequency / kTurn;
      const double kept = std::clamp((fits - scaling.low) / (scaling.high - scaling.low), 0.0, 1.0);
      frequency = (1 - kept) * frequency / scaling.factor + kept * frequency;
    }
    frequencies[i] = frequency;
  }
  return frequencies;
}

RopeTable::RopeTable(const ModelConfig& config, AnglePrecision precision)
    : half_(config.head_dim / 2),
      cosines_(config.positions * half_),
      sines_(config.positions * half_) {
  const std::vector<double> frequencies = RopeFrequencies(config);
  for (size_t i = 0; i < half_; ++i) {
    for (size_t p = 0; p < config.positions; ++p) {
      double cosine = 0;
      double sine = 0;
      CosSin(AngleOf(p, frequencies[i], precision), &cosine, &sine);
      cosines_[p * half_ + i] = static_cast<float>(cosine);
      sines_[p * half_ + i] = static_cast<float>(sine);
    }
  }
}

void RopeTable::Rotate(size_t position, bool wide, float* head) const {
  const float* c = cosines(position);
  const float* s = sines(position);
  for (size_t i = 0; i < half_; ++i) {
    const float a = head[i];
    const float b = head[i + half_];
    if (wide) {
      const double ca = c[i], sa = s[i];
      head[i] = static_cast<float>(a * ca - b * sa);
      head[i + half_] = static_cast<float>(b * ca + a * sa);
    } else {
      head[i] = a * c[i] - b * s[i];
      head[i + half_] = b * c[i] + a * s[i];
    }
  }
}

void RopeTable::RotateBack(size_t position, float* head) const {
  const float* c = cosines(position);
  const float* s = sines(position);
  for (size_t i = 0; i < half_; ++i) {
    const float a = head[i];
    const float b = head[i + half_];
    head[i] = a * c[i] + b * s[i];
    head[i + half_] = b * c[i] - a * s[i];
  }
}

}  // namespace kcc
