// Real quantisers for the toy network: scales in fp32, numbers through the project's own dtypes.
#pragma once

#include <cmath>
#include <cstdint>

#include "kcc/base/dtype.h"
#include "kcc/bounds/envelope.h"

namespace kcc::bench {

inline double RoundTo(DType dtype, double value) {
  const auto x = static_cast<float>(value);
  switch (dtype) {
    case DType::kBF16:
      return static_cast<double>(BF16ToFloat(FloatToBF16(x)));
    case DType::kF16:
      return static_cast<double>(F16ToFloat(FloatToF16(x)));
    case DType::kF8E4M3:
      return static_cast<double>(F8E4M3ToFloat(FloatToF8E4M3(x)));
    case DType::kF8E5M2:
      return static_cast<double>(F8E5M2ToFloat(FloatToF8E5M2(x)));
    default:
      return static_cast<double>(x);
  }
}

// In place, with one symmetric scale for the whole vector.
inline void QuantizeVector(double* x, int64_t n, const QuantizerDescription& quantizer) {
  if (quantizer.quantizer == Quantizer::kExact) return;
  float max_abs = 0;
  for (int64_t i = 0; i < n; ++i) max_abs = std::fmax(max_abs, std::fabs(static_cast<float>(x[i])));
  if (max_abs == 0) return;
  const bool is_int = quantizer.quantizer == Quantizer::kInt;
  const auto levels = static_cast<float>((1 << (quantizer.bits - 1)) - 1);
  const float largest =
      is_int ? levels : static_cast<float>(FloatFormatOf(quantizer.format).largest);
  const float scale = max_abs / largest;
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = static_cast<float>(x[i]) / scale;
    double code = 0;
    if (is_int) {
      code = quantizer.bits == 8 ? FloatToI8(scaled) : FloatToI4(scaled);
    } else {
      code = RoundTo(quantizer.format, static_cast<double>(scaled));
    }
    x[i] = code * static_cast<double>(scale);
  }
}

}  // namespace kcc::bench
