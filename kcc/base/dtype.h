// The number formats a trace or a kernel may hold, under their safetensors names, with exact
// conversions: widening loses nothing, narrowing rounds to nearest, ties to even.
//
// F8_E4M3 is the finite variant (OCP OFP8: no infinities, NaN = 0x7f/0xff, largest 448); F8_E5M2
// follows IEEE rules. Scalar code: the vector loads live in kcc/numeric and are tested against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kcc {

enum class DType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kI4,
  kU8,
  kBool,
};

std::string_view DTypeName(DType dtype);                 // "BF16"
std::optional<DType> ParseDType(std::string_view name);  // exact, upper case
std::span<const std::string_view> DTypeNames();
size_t DTypeBits(DType dtype);  // 4 for I4, which packs two a byte

// What a value too large for the format becomes. Formats without infinities give NaN for
// kInfinity, as the OFP8 standard's non-saturating mode does.
enum class Overflow { kInfinity, kSaturate };

float F16ToFloat(uint16_t bits);
float BF16ToFloat(uint16_t bits);
float F8E4M3ToFloat(uint8_t bits);
float F8E5M2ToFloat(uint8_t bits);

uint16_t FloatToF16(float value, Overflow overflow = Overflow::kInfinity);
uint16_t FloatToBF16(float value, Overflow overflow = Overflow::kInfinity);
uint8_t FloatToF8E4M3(float value, Overflow overflow = Overflow::kSaturate);
uint8_t FloatToF8E5M2(float value, Overflow overflow = Overflow::kSaturate);

// Rounded to nearest even and clamped to [-128, 127] or [-8, 7]; NaN becomes 0.
int8_t FloatToI8(float value);
int8_t FloatToI4(float value);

// Element i of an array of these. Arrays need no alignment. Exact, but for integers beyond 2^53.
// LoadLogit: F32, F16, BF16, F8_E4M3 or F8_E5M2. LoadElement: any format but I4.
float LoadLogit(const void* array, DType dtype, size_t i);
double LoadElement(const void* array, DType dtype, size_t i);

// I4 packs two two's-complement numbers a byte, the even element in the low half.
int8_t UnpackI4(uint8_t byte, bool high);
uint8_t PackI4(int8_t low, int8_t high);

}  // namespace kcc
