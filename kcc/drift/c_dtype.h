// The number formats of the C interface (include/kcc.h) and ours: one table for libkcc, for the
// CUDA library and for whoever calls it.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "include/kcc.h"
#include "kcc/base/dtype.h"

namespace kcc {

inline constexpr std::array<std::pair<kcc_dtype, DType>, 9> kCDTypes = {{
    {KCC_F32, DType::kF32},
    {KCC_F64, DType::kF64},
    {KCC_F16, DType::kF16},
    {KCC_BF16, DType::kBF16},
    {KCC_F8_E4M3, DType::kF8E4M3},
    {KCC_F8_E5M2, DType::kF8E5M2},
    {KCC_U8, DType::kU8},
    {KCC_I32, DType::kI32},
    {KCC_I64, DType::kI64},
}};

// None for a number that the header does not have.
inline std::optional<DType> DTypeOf(kcc_dtype dtype) {
  for (const auto& [of_c, ours] : kCDTypes) {
    if (of_c == dtype) return ours;
  }
  return std::nullopt;
}

// None for a format that C callers do not see (I4, I8, I16).
inline std::optional<kcc_dtype> CDTypeOf(DType dtype) {
  for (const auto& [of_c, ours] : kCDTypes) {
    if (ours == dtype) return of_c;
  }
  return std::nullopt;
}

}  // namespace kcc
