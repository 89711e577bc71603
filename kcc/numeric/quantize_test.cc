#include "kcc/numeric/quantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kcc {
namespace {

float ByTable(float value, DType format) {
  switch (format) {
    case DType::kBF16:
      return BF16ToFloat(FloatToBF16(value));
    case DType::kF16:
      return F16ToFloat(FloatToF16(value, Overflow::kSaturate));
    case DType::kF8E4M3:
      return F8E4M3ToFloat(FloatToF8E4M3(value));
    case DType::kF8E5M2:
      return F8E5M2ToFloat(FloatToF8E5M2(value));
    default:
      return value;
  }
}

float Rounded(float value, DType format) {
  RoundValues({&value, 1}, format);
  return value;
}

// Every number that F16 and BF16 have, half-way points included, and their float neighbours: all
// values of FP8 and their midpoints are among them.
TEST(Quantize, RoundsEveryPatternAndMidpointAsTheConversionsDo) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    for (const float base :
         {F16ToFloat(static_cast<uint16_t>(bits)), BF16ToFloat(static_cast<uint16_t>(bits)),
          std::bit_cast<float>((bits << 16) | 0x8000u),
          std::bit_cast<float>((bits << 13) | 0x1000u)}) {
      if (!std::isfinite(base)) continue;
      values.push_back(base);
      values.push_back(std::nextafter(base, 2 * base));
      values.push_back(std::nextafter(base, 0.0f));
    }
  }
  for (const DType format : {DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2}) {
    for (const float value : values) {
      if (!std::isfinite(value)) continue;
      const float expected = ByTable(value, format);
      ASSERT_EQ(std::bit_cast<uint32_t>(Rounded(value, format)), std::bit_cast<uint32_t>(expected))
          << DTypeName(format) << " of " << value;
    }
  }
}

TEST(Quantize, FormatsKeepAllTheirOwnValues) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const float e4m3 = F8E4M3ToFloat(static_cast<uint8_t>(bits));
    const float e5m2 = F8E5M2ToFloat(static_cast<uint8_t>(bits));
    if (std::isfinite(e4m3)) {
      EXPECT_EQ(Rounded(e4m3, DType::kF8E4M3), e4m3);
    }
    if (std::isfinite(e5m2)) {
      EXPECT_EQ(Rounded(e5m2, DType::kF8E5M2), e5m2);
    }
  }
}

TEST(Quantize, ScaledRoundingMatchesTheCodesOneByOne) {
  std::mt19937 bits(7);
  std::normal_distribution<float> normal;
  for (const DType format : {DType::kF8E4M3, DType::kF8E5M2, DType::kI8, DType::kI4}) {
    std::vector<float> values(4096);
    for (float& value : values) value = normal(bits) * 0.02f;
    std::vector<float> rounded = values;
    const float scale = RoundScaled(rounded, format);
    ASSERT_EQ(scale, CoveringScale(values, format));
    for (size_t i = 0; i < values.size(); ++i) {
      const float code = format == DType::kI8   ? FloatToI8(values[i] / scale)
                         : format == DType::kI4 ? FloatToI4(values[i] / scale)
                                                : ByTable(values[i] / scale, format);
      ASSERT_EQ(rounded[i], code * scale) << DTypeName(format);
    }
  }
}

TEST(Quantize, AllZerosHaveScaleZeroAndStayZero) {
  std::vector<float> zeros(5, 0.0f);
  EXPECT_EQ(RoundScaled(zeros, DType::kI8), 0.0f);
  EXPECT_EQ(zeros, std::vector<float>(5, 0.0f));
}

}  // namespace
}  // namespace kcc
