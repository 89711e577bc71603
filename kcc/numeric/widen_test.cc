#include "kcc/numeric/widen.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace kcc {
namespace {

TEST(Target, EveryCpuHasOneAndEachHasItsName) {
  ASSERT_FALSE(AvailableTargets().empty());
  EXPECT_EQ(AvailableTargets().back(), Target::kScalar);
  for (const Target target : AvailableTargets()) {
    const Result<Target> parsed = ParseTarget(TargetName(target));
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(*parsed, target);
  }
  // Of each architecture the best: a build that forgot its vectors would be right, and slow.
#if defined(__x86_64__)
  EXPECT_FALSE(ParseTarget("neon").has_value());
#elif defined(__aarch64__)
  EXPECT_EQ(BestTarget(), Target::kNeon);
  EXPECT_FALSE(ParseTarget("avx2").has_value());
#endif
  EXPECT_EQ(TargetName(Target::kNeon), "neon");
  const Result<Target> unknown = ParseTarget("sse9");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().message().find("scalar"), std::string::npos);
}

// Every value of the 16 and 8 bit formats, NaN included, from an odd start and with a tail.
TEST(Widen, EveryTargetWidensEveryValueAsTheScalarConversion) {
  for (const Target target : AvailableTargets()) {
    std::vector<uint16_t> halves(65536 + 1);
    for (size_t i = 0; i < 65536; ++i) halves[i + 1] = static_cast<uint16_t>(i);
    std::vector<float> got(65535);
    const auto expect = [&](size_t i, float want, float value, DType dtype) {
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(value)) << DTypeName(dtype) << i;
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(want))
            << DTypeName(dtype) << " " << i << " " << TargetName(target);
      }
    };
    WidenToFloat(halves.data() + 1, DType::kBF16, got.size(), target, got.data());
    for (size_t i = 0; i < got.size(); ++i) {
      expect(i, BF16ToFloat(static_cast<uint16_t>(i)), got[i], DType::kBF16);
    }
    WidenToFloat(halves.data() + 1, DType::kF16, got.size(), target, got.data());
    for (size_t i = 0; i < got.size(); ++i) {
      expect(i, F16ToFloat(static_cast<uint16_t>(i)), got[i], DType::kF16);
    }
    std::vector<uint8_t> bytes(256);
    for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
    WidenToFloat(bytes.data(), DType::kF8E4M3, 256, target, got.data());
    for (size_t i = 0; i < 256; ++i) expect(i, F8E4M3ToFloat(bytes[i]), got[i], DType::kF8E4M3);
    WidenToFloat(bytes.data(), DType::kF8E5M2, 256, target, got.data());
    for (size_t i = 0; i < 256; ++i) expect(i, F8E5M2ToFloat(bytes[i]), got[i], DType::kF8E5M2);
  }
}

}  // namespace
}  // namespace kcc
