#include "kcc/base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace kcc {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A second, slower definition: every finite value of the format in a sorted table, and the nearest
// entry by comparison, ties to the even pattern.
template <class Bits>
struct Table {
  std::vector<std::pair<double, Bits>> values;  // non-negative, ascending

  template <class Decode>
  Table(Decode decode, unsigned count) {
    for (unsigned bits = 0; bits < count; ++bits) {
      const float value = decode(static_cast<Bits>(bits));
      if (std::isfinite(value)) values.emplace_back(value, static_cast<Bits>(bits));
    }
  }

  Bits Nearest(double magnitude) const {
    size_t i = 0;
    while (i + 1 < values.size() && values[i + 1].first <= magnitude) ++i;
    if (i + 1 == values.size()) return values[i].second;
    const double below = magnitude - values[i].first;
    const double above = values[i + 1].first - magnitude;
    if (below == above) return values[i].second % 2 == 0 ? values[i].second : values[i + 1].second;
    return below < above ? values[i].second : values[i + 1].second;
  }
};

TEST(DType, NamesRoundTrip) {
  for (const std::string_view name : DTypeNames()) {
    const auto dtype = ParseDType(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(DTypeName(*dtype), name);
  }
  EXPECT_FALSE(ParseDType("bf16").has_value());
  EXPECT_FALSE(ParseDType("").has_value());
}

TEST(DType, KnownBitPatterns) {
  EXPECT_EQ(F16ToFloat(0x3c00), 1.0f);
  EXPECT_EQ(F16ToFloat(0x0001), std::ldexp(1.0f, -24));
  EXPECT_EQ(F16ToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(F16ToFloat(0xfc00), -kInf);
  EXPECT_EQ(BF16ToFloat(0x3f80), 1.0f);
  EXPECT_EQ(F8E4M3ToFloat(0x7e), 448.0f);
  EXPECT_TRUE(std::isnan(F8E4M3ToFloat(0x7f)));
  EXPECT_TRUE(std::isnan(F8E4M3ToFloat(0xff)));
  EXPECT_EQ(F8E4M3ToFloat(0x01), std::ldexp(1.0f, -9));
  EXPECT_EQ(F8E5M2ToFloat(0x7b), 57344.0f);
  EXPECT_EQ(F8E5M2ToFloat(0x7c), kInf);
  EXPECT_EQ(F8E5M2ToFloat(0x01), std::ldexp(1.0f, -16));
}

TEST(DType, EveryPatternOfEverySmallFormatRoundTrips) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(F16ToFloat(half))) {
      EXPECT_EQ(FloatToF16(F16ToFloat(half)), half);
    }
    if (!std::isnan(BF16ToFloat(half))) {
      EXPECT_EQ(FloatToBF16(BF16ToFloat(half)), half);
    }
  }
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<uint8_t>(bits);
    if (!std::isnan(F8E4M3ToFloat(byte))) {
      EXPECT_EQ(FloatToF8E4M3(F8E4M3ToFloat(byte)), byte);
    }
    if (std::isfinite(F8E5M2ToFloat(byte))) {
      EXPECT_EQ(FloatToF8E5M2(F8E5M2ToFloat(byte)), byte);
    }
  }
}

// Every value half-way between two neighbours, and its two float neighbours.
template <class Bits, class Encode>
void ExpectNearest(const Table<Bits>& table, Encode encode) {
  for (size_t i = 0; i + 1 < table.values.size(); ++i) {
    const double middle = 0.5 * (table.values[i].first + table.values[i + 1].first);
    const auto exact = static_cast<float>(middle);
    for (const float value : {exact, std::nextafter(exact, kInf), std::nextafter(exact, 0.0f)}) {
      ASSERT_EQ(encode(value), table.Nearest(value)) << value;
    }
  }
}

TEST(DType, NarrowingRoundsToNearestEvenAtEveryMidpoint) {
  ExpectNearest(Table<uint16_t>(F16ToFloat, 0x8000), [](float v) { return FloatToF16(v); });
  ExpectNearest(Table<uint8_t>(F8E4M3ToFloat, 0x80), [](float v) { return FloatToF8E4M3(v); });
  ExpectNearest(Table<uint8_t>(F8E5M2ToFloat, 0x80), [](float v) { return FloatToF8E5M2(v); });
  // BF16 midpoints need the 17th bit, which float still has.
  for (uint32_t high = 0; high < 0x7f80; ++high) {
    const auto middle = std::bit_cast<float>((high << 16) | 0x8000u);
    ASSERT_EQ(FloatToBF16(middle), high + (high & 1)) << middle;
    ASSERT_EQ(FloatToBF16(std::nextafter(middle, kInf)), high + 1);
    ASSERT_EQ(FloatToBF16(std::nextafter(middle, 0.0f)), high);
  }
}

TEST(DType, OverflowSaturatesOrNot) {
  EXPECT_EQ(F16ToFloat(FloatToF16(65520.0f)), kInf);
  EXPECT_EQ(F16ToFloat(FloatToF16(65519.0f)), 65504.0f);
  EXPECT_EQ(F16ToFloat(FloatToF16(1e9f, Overflow::kSaturate)), 65504.0f);
  EXPECT_EQ(F16ToFloat(FloatToF16(-kInf, Overflow::kSaturate)), -65504.0f);
  EXPECT_EQ(F8E4M3ToFloat(FloatToF8E4M3(1e9f)), 448.0f);
  EXPECT_TRUE(std::isnan(F8E4M3ToFloat(FloatToF8E4M3(1e9f, Overflow::kInfinity))));
  EXPECT_EQ(F8E5M2ToFloat(FloatToF8E5M2(-1e9f)), -57344.0f);
  EXPECT_EQ(F8E5M2ToFloat(FloatToF8E5M2(-1e9f, Overflow::kInfinity)), -kInf);
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(BF16ToFloat(FloatToBF16(largest)), kInf);
  EXPECT_EQ(FloatToBF16(largest, Overflow::kSaturate), 0x7f7f);
}

TEST(DType, NanStaysNanAndSignedZeroStays) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(nan))));
  EXPECT_TRUE(std::isnan(BF16ToFloat(FloatToBF16(nan))));
  EXPECT_TRUE(std::isnan(F8E4M3ToFloat(FloatToF8E4M3(nan))));
  EXPECT_TRUE(std::isnan(F8E5M2ToFloat(FloatToF8E5M2(nan))));
  // A NaN whose payload lies in the dropped bits must not become infinity.
  EXPECT_TRUE(std::isnan(BF16ToFloat(FloatToBF16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::signbit(F16ToFloat(FloatToF16(-0.0f))));
  EXPECT_TRUE(std::signbit(F8E4M3ToFloat(FloatToF8E4M3(-1e-9f))));
}

template <class T>
void ExpectLoaded(DType dtype, T first, T second, double value) {
  // One byte off, so that nothing is aligned.
  std::vector<char> bytes(1 + 2 * sizeof(T));
  std::memcpy(bytes.data() + 1, &first, sizeof(T));
  std::memcpy(bytes.data() + 1 + sizeof(T), &second, sizeof(T));
  EXPECT_EQ(LoadElement(bytes.data() + 1, dtype, 1), value) << DTypeName(dtype);
}

TEST(DType, ElementsAreLoadedExactly) {
  ExpectLoaded<double>(DType::kF64, 1, 0.1, 0.1);
  ExpectLoaded<float>(DType::kF32, 1, 0.1f, double{0.1f});
  ExpectLoaded<uint16_t>(DType::kF16, 0, FloatToF16(-1.5f), -1.5);
  ExpectLoaded<uint16_t>(DType::kBF16, 0, FloatToBF16(3.0f), 3);
  ExpectLoaded<uint8_t>(DType::kF8E4M3, 0, FloatToF8E4M3(448), 448);
  ExpectLoaded<uint8_t>(DType::kF8E5M2, 0, FloatToF8E5M2(0.25f), 0.25);
  ExpectLoaded<int64_t>(DType::kI64, 1, -(int64_t{1} << 53), -0x1p53);
  ExpectLoaded<int32_t>(DType::kI32, 1, -7, -7);
  ExpectLoaded<int16_t>(DType::kI16, 1, -300, -300);
  ExpectLoaded<int8_t>(DType::kI8, 1, -128, -128);
  ExpectLoaded<uint8_t>(DType::kU8, 1, 255, 255);
  ExpectLoaded<uint8_t>(DType::kBool, 0, 1, 1);
}

TEST(DType, IntegersRoundToEvenAndClamp) {
  EXPECT_EQ(FloatToI8(2.5f), 2);
  EXPECT_EQ(FloatToI8(3.5f), 4);
  EXPECT_EQ(FloatToI8(1e9f), 127);
  EXPECT_EQ(FloatToI8(-1e9f), -128);
  EXPECT_EQ(FloatToI8(std::nanf("")), 0);
  EXPECT_EQ(FloatToI4(7.6f), 7);
  EXPECT_EQ(FloatToI4(-8.6f), -8);
  for (int low = -8; low < 8; ++low) {
    for (int high = -8; high < 8; ++high) {
      const uint8_t byte = PackI4(static_cast<int8_t>(low), static_cast<int8_t>(high));
      EXPECT_EQ(UnpackI4(byte, false), low);
      EXPECT_EQ(UnpackI4(byte, true), high);
    }
  }
}

}  // namespace
}  // namespace kcc
