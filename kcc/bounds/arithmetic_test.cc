// The quantisers' bounds against every value of the formats, and the constants themselves.
#include "kcc/bounds/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kcc {
namespace {

TEST(FloatFormat, HasTheConstantsOfTheStandards) {
  EXPECT_EQ(FloatFormatOf(DType::kF32).unit_roundoff, std::ldexp(1.0, -24));
  EXPECT_EQ(FloatFormatOf(DType::kF16).largest, 65504);
  EXPECT_EQ(FloatFormatOf(DType::kBF16).unit_roundoff, 0.00390625);
  EXPECT_EQ(FloatFormatOf(DType::kF8E4M3).min_subnormal, std::ldexp(1.0, -9));
  EXPECT_EQ(FloatFormatOf(DType::kF8E5M2).largest, 57344);
}

struct Codec {
  DType dtype;
  double (*round)(double);
};

const Codec kCodecs[] = {
    {DType::kF16,
     [](double x) -> double {
       return F16ToFloat(FloatToF16(static_cast<float>(x), Overflow::kSaturate));
     }},
    {DType::kBF16,
     [](double x) -> double {
       return BF16ToFloat(FloatToBF16(static_cast<float>(x), Overflow::kSaturate));
     }},
    {DType::kF8E4M3,
     [](double x) -> double { return F8E4M3ToFloat(FloatToF8E4M3(static_cast<float>(x))); }},
    {DType::kF8E5M2,
     [](double x) -> double { return F8E5M2ToFloat(FloatToF8E5M2(static_cast<float>(x))); }},
};

TEST(FloatFormat, TheErrorOfOneRoundingCoversTheCodecsAndIsReached) {
  for (const Codec& codec : kCodecs) {
    const FloatFormat format = FloatFormatOf(codec.dtype);
    double closest = 0;
    for (double x = format.min_subnormal / 16; x < format.largest * 1.5; x *= 1.00037) {
      const auto value = static_cast<double>(static_cast<float>(x));
      if (!std::isfinite(value)) break;
      const double error = std::fabs(codec.round(value) - value);
      const double bound = ScaledFloatError(format, 1, value);
      ASSERT_LE(error, bound) << DTypeName(codec.dtype) << " at " << value;
      if (value < format.largest) closest = std::fmax(closest, error / bound);
    }
    EXPECT_GT(closest, 0.99) << DTypeName(codec.dtype);
  }
}

TEST(ScaledFloat, LargestE4M3ErrorIsFarAboveHalfAScaleUnit) {
  // amax = 448 scale units: an error of 16 units, amax/28 (docs/math.md A.9, W7).
  const double amax = 3.5;
  const double scale = amax / 448;
  double most = 0;
  for (double x = 0; x <= amax; x += 1e-4) {
    const double q = scale * F8E4M3ToFloat(FloatToF8E4M3(static_cast<float>(x / scale)));
    most = std::fmax(most, std::fabs(q - x));
    ASSERT_LE(std::fabs(q - x), ScaledFloatError(FloatFormatOf(DType::kF8E4M3), scale, x) + 1e-7);
  }
  EXPECT_NEAR(most / (scale / 2), 32, 0.2);
  EXPECT_NEAR(most, amax / 28, 1e-3);
  EXPECT_EQ(ScaledFloatError(FloatFormatOf(DType::kF8E4M3), 1, 0), 0);
  EXPECT_NEAR(ScaledFloatError(FloatFormatOf(DType::kF8E4M3), 1, 600), 152, 1e-9);  // saturated
}

TEST(IntQuantizer, StepCoversTheRangeAndTheErrorIsHalfOfIt) {
  EXPECT_NEAR(IntStep(8, 1.27), 0.01, 1e-14);
  EXPECT_NEAR(IntStep(4, 7), 1, 1e-12);
  EXPECT_NEAR(IntError(8, 0.01), 0.005, 1e-6);
  EXPECT_GE(IntError(8, 0.01), 0.005);
  EXPECT_NEAR(IntRms(0.01), 0.0028867513459481288, 1e-15);
  EXPECT_NEAR(ScaledFloatRms(FloatFormatOf(DType::kF8E4M3), 2), 0.053125, 1e-12);
}

}  // namespace
}  // namespace kcc
