#include "kcc/numeric/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "kcc/numeric/quantize.h"

namespace kcc {
namespace {

std::vector<float> Random(size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(bits() >> 8) * 0x1p-23f - 1.0f;
  return values;
}

struct Case {
  DType format;
  ScaleGrain grain;
  size_t group;
  int largest_code = 7;
};
const std::vector<Case> kCases = {
    {DType::kF32, ScaleGrain::kChannel, 0},    {DType::kBF16, ScaleGrain::kChannel, 0},
    {DType::kF16, ScaleGrain::kChannel, 0},    {DType::kF8E4M3, ScaleGrain::kTensor, 0},
    {DType::kF8E4M3, ScaleGrain::kChannel, 0}, {DType::kF8E5M2, ScaleGrain::kChannel, 0},
    {DType::kI8, ScaleGrain::kChannel, 0},     {DType::kI4, ScaleGrain::kGroup, 32},
    {DType::kI4, ScaleGrain::kGroup, 64},      {DType::kI4, ScaleGrain::kGroup, 32, 3},
    {DType::kI4, ScaleGrain::kChannel, 0, 3},
};
constexpr size_t kInputs = 160;

std::vector<float> Product(const PackedMatrix& w, const std::vector<float>& x, size_t rows,
                           const Reduction& reduction, Target target) {
  std::vector<float> y(rows * w.outputs());
  Gemm({x.data(), rows, w.inputs(), y.data(), w.outputs()}, w, 0, w.panels(), reduction, target);
  return y;
}

float RoundMantissa(float value, int bits) {
  const int dropped = 23 - bits;
  uint32_t raw = std::bit_cast<uint32_t>(value);
  raw += (1u << (dropped - 1)) - 1 + ((raw >> dropped) & 1u);
  return std::bit_cast<float>(raw & ~((1u << dropped) - 1));
}

// The definition: chains in order of k.
float Reference(const PackedMatrix& w, const float* x, size_t n, const Reduction& how) {
  double wide = 0;
  float narrow = 0;
  for (int s = 0; s < how.split; ++s) {
    const auto begin = [&](int i) {
      return w.inputs() / 32 * static_cast<size_t>(i) / static_cast<size_t>(how.split) * 32;
    };
    double wide_part = 0;
    float part = 0;
    float promoted = 0;
    bool first = true;
    for (size_t k = begin(s); k < begin(s + 1); ++k) {
      wide_part += static_cast<double>(x[k]) * static_cast<double>(w.At(n, k));
      part = std::fma(x[k], w.At(n, k), part);
      if (how.mantissa_bits < 23) part = RoundMantissa(part, how.mantissa_bits);
      const bool last = k + 1 == begin(s + 1);
      const bool full =
          how.promote > 0 && (k + 1 - begin(s)) % static_cast<size_t>(how.promote) == 0;
      if (last || full) {
        promoted = first ? part : promoted + part;
        first = false;
        part = 0;
      }
    }
    wide = s == 0 ? wide_part : wide + wide_part;
    narrow = s == 0 ? promoted : narrow + promoted;
  }
  return how.mantissa_bits == 52 ? static_cast<float>(wide) : narrow;
}

TEST(Gemm, EveryFormatAndReductionIsItsDefinitionToTheLastBitOnEveryTarget) {
  const std::vector<Reduction> reductions = {{23, 0, 1}, {23, 0, 3},  {52, 0, 1},  {52, 0, 2},
                                             {13, 0, 1}, {13, 32, 1}, {10, 64, 2}, {7, 0, 1}};
  for (const Case& c : kCases) {
    for (const size_t outputs : {size_t{32}, size_t{150}}) {
      const PackedMatrix w(Random(outputs * kInputs, 1), outputs, kInputs, c.format, c.grain,
                           c.group, c.largest_code);
      for (const size_t rows : {size_t{1}, size_t{7}, size_t{19}}) {
        const std::vector<float> x = Random(rows * kInputs, 2);
        for (const Reduction& how : reductions) {
          std::vector<float> expected;
          for (size_t r = 0; r < rows; ++r) {
            for (size_t n = 0; n < outputs; ++n) {
              expected.push_back(Reference(w, x.data() + r * kInputs, n, how));
            }
          }
          for (const Target target : AvailableTargets()) {
            ASSERT_EQ(Product(w, x, rows, how, target), expected)
                << DTypeName(c.format) << " rows " << rows << " outputs " << outputs << " bits "
                << how.mantissa_bits << " split " << how.split << " on " << TargetName(target);
          }
        }
      }
    }
  }
}

TEST(Gemm, PackedWeightsAreTheNearestCodesUnderTheirScale) {
  const std::vector<float> weights = Random(40 * kInputs, 3);
  const PackedMatrix i8(weights, 40, kInputs, DType::kI8, ScaleGrain::kChannel);
  const PackedMatrix i4(weights, 40, kInputs, DType::kI4, ScaleGrain::kGroup, 32);
  for (size_t n = 0; n < 40; ++n) {
    float largest = 0;
    for (size_t k = 0; k < kInputs; ++k) {
      largest = std::max(largest, std::fabs(weights[n * kInputs + k]));
    }
    for (size_t k = 0; k < kInputs; ++k) {
      EXPECT_LE(std::fabs(i8.At(n, k) - weights[n * kInputs + k]), largest / 127 * 0.50001f);
      EXPECT_LE(std::fabs(i4.At(n, k) - weights[n * kInputs + k]), largest / 7 * 0.50001f);
    }
  }
}

// INT3: seven values of a group, its largest weight among them.
TEST(Gemm, OfThreeBitsThereAreSevenCodesUnderAScaleThatCoversTheGroup) {
  std::vector<float> weights = Random(40 * kInputs, 3);
  std::fill_n(weights.begin() + 32, 32, 0.0f);
  for (size_t i = 64; i < 96; ++i) weights[i] = i % 2 == 0 ? 4e-45f : -4e-45f;  // 3 of the least
  const PackedMatrix i3(weights, 40, kInputs, DType::kI4, ScaleGrain::kGroup, 32, 3);
  EXPECT_EQ(i3.bytes(),
            PackedMatrix(weights, 40, kInputs, DType::kI4, ScaleGrain::kGroup, 32).bytes());
  for (size_t n = 0; n < 40; ++n) {
    for (size_t g = 0; g < kInputs; g += 32) {
      const std::span<const float> group(&weights[n * kInputs + g], 32);
      const float scale = CoveringScale(group, 3);
      std::set<float> codes;
      for (size_t k = 0; k < 32; ++k) {
        const float code = scale == 0 ? 0 : i3.At(n, g + k) / scale;
        EXPECT_EQ(code, std::nearbyint(code));
        EXPECT_LE(std::fabs(code), 3);
        EXPECT_LE(std::fabs(i3.At(n, g + k) - group[k]), scale * 0.50001f);
        codes.insert(std::fabs(code));
      }
      EXPECT_EQ(*codes.rbegin(), scale == 0 ? 0 : 3);
    }
  }
}

TEST(Gemm, UnpackGivesWhatEveryWeightStandsFor) {
  for (const Case& c : kCases) {
    const PackedMatrix w(Random(40 * kInputs, 3), 40, kInputs, c.format, c.grain, c.group,
                         c.largest_code);
    std::vector<float> all(40 * kInputs);
    w.Unpack(all.data());
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], w.At(i / kInputs, i % kInputs));
  }
}

// Of gradients: a matrix is multiplied by its rows, which a batch has any number of.
TEST(Gemm, ATransposeIsFilledWithoutItsEndsShowing) {
  PackedMatrix w;
  for (const auto& [rows, columns] :
       std::vector<std::pair<size_t, size_t>>{{96, 150}, {37, 64}, {1, 5}, {64, 32}}) {
    const size_t stride = columns + 3;
    const std::vector<float> m = Random(rows * stride, 4);
    w.SetShape(columns, rows);
    w.FillTransposed(m.data(), rows, stride, 0, w.panels() / 2);
    w.FillTransposed(m.data(), rows, stride, w.panels() / 2, w.panels());
    ASSERT_EQ(w.inputs(), (rows + 31) / 32 * 32);
    for (size_t n = 0; n < columns; ++n) {
      for (size_t k = 0; k < w.inputs(); ++k) {
        ASSERT_EQ(w.At(n, k), k < rows ? m[k * stride + n] : 0.0f);
      }
    }
    const std::vector<float> x = Random(3 * w.inputs(), 5);
    const std::vector<float> y = Product(w, x, 3, {}, BestTarget());
    for (const Target target : AvailableTargets()) EXPECT_EQ(Product(w, x, 3, {}, target), y);
    EXPECT_EQ(y[0], Reference(w, x.data(), 0, {}));
  }
}

TEST(Gemm, ProductsAreAddedOnceTheyAreSummed) {
  const PackedMatrix w(Random(50 * kInputs, 1), 50, kInputs, DType::kF32);
  const std::vector<float> x = Random(11 * kInputs, 2);
  for (const Reduction& how :
       std::vector<Reduction>{{23, 0, 1}, {23, 0, 3}, {52, 0, 1}, {10, 0, 1}}) {
    for (const Target target : AvailableTargets()) {
      const std::vector<float> before = Random(11 * 50, 6);
      std::vector<float> y = before;
      Gemm({x.data(), 11, kInputs, y.data(), 50, true}, w, 0, w.panels(), how, target);
      const std::vector<float> product = Product(w, x, 11, how, target);
      for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], before[i] + product[i]);
    }
  }
}

// A thread that takes some panels leaves the rest of the rows alone.
TEST(Gemm, PanelsCanBeSharedOut) {
  const PackedMatrix w(Random(96 * kInputs, 1), 96, kInputs, DType::kF32);
  const std::vector<float> x = Random(5 * kInputs, 2);
  const std::vector<float> whole = Product(w, x, 5, {}, BestTarget());
  std::vector<float> parts(whole.size(), -1.0f);
  const GemmRows rows{x.data(), 5, kInputs, parts.data(), 96};
  Gemm(rows, w, 2, 3, {}, BestTarget());
  EXPECT_EQ(parts[0], -1.0f);
  Gemm(rows, w, 0, 2, {}, BestTarget());
  EXPECT_EQ(parts, whole);
}

}  // namespace
}  // namespace kcc
