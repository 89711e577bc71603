#include "kcc/base/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kcc/base/check.h"

namespace kcc {
namespace {

constexpr std::array<std::string_view, 13> kNames = {"F64",     "F32", "F16", "BF16", "F8_E4M3",
                                                     "F8_E5M2", "I64", "I32", "I16",  "I8",
                                                     "I4",      "U8",  "BOOL"};
constexpr std::array<size_t, 13> kBits = {64, 32, 16, 16, 8, 8, 64, 32, 16, 8, 4, 8, 8};

// A binary format of one sign bit, `kExponentBits` and `kMantissaBits`. With kFiniteOnly the top
// exponent holds numbers and only its all-ones mantissa is NaN.
template <int kExponentBits, int kMantissaBits, bool kFiniteOnly>
struct SmallFloat {
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr uint32_t kMantissaMask = (1u << kMantissaBits) - 1;
  static constexpr uint32_t kExponentMask = (1u << kExponentBits) - 1;
  static constexpr uint32_t kSign = 1u << (kExponentBits + kMantissaBits);
  static constexpr uint32_t kNan =
      kFiniteOnly ? (kSign - 1) : (kExponentMask << kMantissaBits) | (1u << (kMantissaBits - 1));
  static constexpr uint32_t kInfinity = kFiniteOnly ? kNan : kExponentMask << kMantissaBits;
  static constexpr uint32_t kLargest = kInfinity - 1;

  static float Decode(uint32_t bits) {
    const uint32_t exponent = (bits >> kMantissaBits) & kExponentMask;
    const uint32_t mantissa = bits & kMantissaMask;
    const float sign = (bits & kSign) ? -1.0f : 1.0f;
    const uint32_t magnitude = bits & (kSign - 1);
    if (magnitude == kInfinity && !kFiniteOnly) {
      return sign * std::numeric_limits<float>::infinity();
    }
    if (magnitude >= kInfinity) return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
    if (exponent == 0) {
      return sign * std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits);
    }
    return sign * std::ldexp(static_cast<float>(mantissa | (1u << kMantissaBits)),
                             static_cast<int>(exponent) - kBias - kMantissaBits);
  }

  static uint32_t Encode(float value, Overflow overflow) {
    const uint32_t sign = std::signbit(value) ? kSign : 0;
    if (std::isnan(value)) return sign | kNan;
    const uint32_t too_large = sign | (overflow == Overflow::kSaturate ? kLargest : kInfinity);
    if (std::isinf(value)) return too_large;
    const double magnitude = std::fabs(static_cast<double>(value));
    if (magnitude == 0) return sign;
    int exponent = std::max(std::ilogb(magnitude), 1 - kBias);
    // Scaling by a power of two is exact in double, so nearbyint makes the only rounding.
    auto units =
        static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent)));
    if (units == (uint64_t{2} << kMantissaBits)) {
      units >>= 1;
      ++exponent;
    }
    if (units < (uint64_t{1} << kMantissaBits)) return sign | static_cast<uint32_t>(units);
    if (exponent + kBias > static_cast<int>(kExponentMask)) return too_large;
    const uint32_t bits = (static_cast<uint32_t>(exponent + kBias) << kMantissaBits) |
                          (static_cast<uint32_t>(units) & kMantissaMask);
    return bits > kLargest ? too_large : sign | bits;
  }
};

using F16 = SmallFloat<5, 10, false>;
using F8E4M3 = SmallFloat<4, 3, true>;
using F8E5M2 = SmallFloat<5, 2, false>;

int8_t RoundToInteger(float value, float low, float high) {
  if (std::isnan(value)) return 0;
  return static_cast<int8_t>(std::nearbyint(std::clamp(value, low, high)));
}

template <class T>
T Load(const void* array, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(array) + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::string_view DTypeName(DType dtype) { return kNames[static_cast<size_t>(dtype)]; }
size_t DTypeBits(DType dtype) { return kBits[static_cast<size_t>(dtype)]; }
std::span<const std::string_view> DTypeNames() { return kNames; }

std::optional<DType> ParseDType(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return {};
  return static_cast<DType>(found - kNames.begin());
}

float F16ToFloat(uint16_t bits) { return F16::Decode(bits); }
float BF16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
float F8E4M3ToFloat(uint8_t bits) { return F8E4M3::Decode(bits); }
float F8E5M2ToFloat(uint8_t bits) { return F8E5M2::Decode(bits); }

uint16_t FloatToF16(float value, Overflow overflow) {
  return static_cast<uint16_t>(F16::Encode(value, overflow));
}

uint16_t FloatToBF16(float value, Overflow overflow) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);  // stays a quiet NaN
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const bool overflows = (rounded & 0x7fff) == 0x7f80;
  if (overflows && overflow == Overflow::kSaturate) {
    return static_cast<uint16_t>((rounded & 0x8000) | 0x7f7f);
  }
  return static_cast<uint16_t>(rounded);
}

uint8_t FloatToF8E4M3(float value, Overflow overflow) {
  return static_cast<uint8_t>(F8E4M3::Encode(value, overflow));
}
uint8_t FloatToF8E5M2(float value, Overflow overflow) {
  return static_cast<uint8_t>(F8E5M2::Encode(value, overflow));
}

int8_t FloatToI8(float value) { return RoundToInteger(value, -128.0f, 127.0f); }
int8_t FloatToI4(float value) { return RoundToInteger(value, -8.0f, 7.0f); }

float LoadLogit(const void* array, DType dtype, size_t i) {
  switch (dtype) {
    case DType::kF32:
      return Load<float>(array, i);
    case DType::kF16:
      return F16ToFloat(Load<uint16_t>(array, i));
    case DType::kBF16:
      return BF16ToFloat(Load<uint16_t>(array, i));
    case DType::kF8E4M3:
      return F8E4M3ToFloat(Load<uint8_t>(array, i));
    case DType::kF8E5M2:
      return F8E5M2ToFloat(Load<uint8_t>(array, i));
    default:
      break;
  }
  KCC_CHECK(false);  // logits of another format are refused where they are read
  return 0;
}

double LoadElement(const void* array, DType dtype, size_t i) {
  switch (dtype) {
    case DType::kF64:
      return Load<double>(array, i);
    case DType::kI64:
      return static_cast<double>(Load<int64_t>(array, i));
    case DType::kI32:
      return Load<int32_t>(array, i);
    case DType::kI16:
      return Load<int16_t>(array, i);
    case DType::kI8:
      return Load<int8_t>(array, i);
    case DType::kU8:
    case DType::kBool:
      return Load<uint8_t>(array, i);
    default:
      return static_cast<double>(LoadLogit(array, dtype, i));
  }
}

int8_t UnpackI4(uint8_t byte, bool high) {
  const int nibble = high ? byte >> 4 : byte & 15;
  return static_cast<int8_t>(nibble < 8 ? nibble : nibble - 16);
}

uint8_t PackI4(int8_t low, int8_t high) {
  KCC_CHECK(low >= -8 && low <= 7 && high >= -8 && high <= 7);
  return static_cast<uint8_t>((low & 15) | ((high & 15) << 4));
}

}  // namespace kcc
