#include "kcc/numeric/row_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace kcc {
namespace {

std::vector<float> Random(size_t count, unsigned seed, float scale = 1.0f) {
  std::mt19937 bits(seed);
  std::vector<float> values(count);
  for (float& value : values) value = (static_cast<float>(bits() >> 8) * 0x1p-23f - 1.0f) * scale;
  return values;
}

constexpr size_t kDims = 32;
constexpr size_t kStride = 48;

template <class Real>
std::vector<Real> ScoresOn(Target target, size_t rows, size_t count) {
  const std::vector<float> queries = Random(rows * kDims, 1);
  const std::vector<float> keys = Random(kDims * kStride, 2);
  std::vector<Real> scores(rows * kStride);
  const ScoreBlock<Real> block{queries.data(), kDims, rows,       keys.data(),   kStride,
                               count,          kDims, Real(0.25), scores.data(), kStride};
  if constexpr (std::is_same_v<Real, float>) {
    RowOpsFor(target).scores(block);
  } else {
    RowOpsFor(target).scores_double(block);
  }
  for (size_t r = 0; r < rows; ++r) {
    for (size_t j = 0; j < count; ++j) {
      Real sum = 0;
      for (size_t d = 0; d < kDims; ++d) {
        sum = std::fma(static_cast<Real>(queries[r * kDims + d]),
                       static_cast<Real>(keys[d * kStride + j]), sum);
      }
      EXPECT_EQ(scores[r * kStride + j], sum * Real(0.25)) << TargetName(target);
    }
  }
  return scores;
}

TEST(RowOps, ScoresAreChainsOverTheDimensions) {
  for (const Target target : AvailableTargets()) {
    for (const size_t rows : std::vector<size_t>{1, 3, 11}) {
      ScoresOn<float>(target, rows, 37);
      ScoresOn<double>(target, rows, 37);
    }
  }
}

template <class Real>
void ExpectValues(Target target, size_t rows, size_t count) {
  const std::vector<float> values = Random(count * kDims, 3);
  const std::vector<float> raw = Random(rows * count, 4);
  const std::vector<Real> weights(raw.begin(), raw.end());
  std::vector<Real> sums(rows * kDims, Real(0.5));
  const ValueBlock<Real> block{weights.data(), count, rows,        values.data(),
                               count,          kDims, sums.data(), kDims};
  if constexpr (std::is_same_v<Real, float>) {
    RowOpsFor(target).values(block);
  } else {
    RowOpsFor(target).values_double(block);
  }
  for (size_t r = 0; r < rows; ++r) {
    for (size_t d = 0; d < kDims; ++d) {
      Real sum = Real(0.5);
      for (size_t j = 0; j < count; ++j) {
        sum = std::fma(weights[r * count + j], static_cast<Real>(values[j * kDims + d]), sum);
      }
      ASSERT_EQ(sums[r * kDims + d], sum) << TargetName(target);
    }
  }
}

TEST(RowOps, ValuesAreChainsOverTheKeys) {
  for (const Target target : AvailableTargets()) {
    for (const size_t rows : std::vector<size_t>{1, 3, 11}) {
      ExpectValues<float>(target, rows, 19);
      ExpectValues<double>(target, rows, 19);
    }
  }
}

TEST(RowOps, ExpIsWithinItsStatedError) {
  for (const auto& [kind, error] :
       {std::pair{ExpKind::kAccurate, 2.5e-7}, std::pair{ExpKind::kFast, 9e-5}}) {
    std::vector<float> row;
    for (int i = 0; i <= 8600; ++i) row.push_back(static_cast<float>(i) * -0.01f);
    std::vector<float> out = row;
    RowOpsFor(BestTarget()).exp(out.data(), out.size(), 0.0f, kind);
    for (size_t i = 0; i < row.size(); ++i) {
      const double exact = std::exp(static_cast<double>(row[i]));
      EXPECT_NEAR(out[i] / exact, 1.0, error) << row[i];
    }
  }
}

TEST(RowOps, EveryTargetHasTheSameBits) {
  const RowOps& reference = RowOpsFor(Target::kScalar);
  for (const Target target : AvailableTargets()) {
    const RowOps& ops = RowOpsFor(target);
    for (const size_t count : std::vector<size_t>{1, 15, 16, 33, 257}) {
      const std::vector<float> a = Random(count, 5, 20.0f);
      const std::vector<float> b = Random(count, 6);
      EXPECT_EQ(ops.sum(a.data(), count), reference.sum(a.data(), count));
      EXPECT_EQ(ops.sum_squares(a.data(), count), reference.sum_squares(a.data(), count));
      EXPECT_EQ(ops.dot(a.data(), b.data(), count), reference.dot(a.data(), b.data(), count));
      EXPECT_EQ(ops.dot(a.data(), a.data(), count), ops.sum_squares(a.data(), count));
      for (const ExpKind kind : {ExpKind::kAccurate, ExpKind::kFast}) {
        std::vector<float> x = a;
        std::vector<float> y = a;
        ops.exp(x.data(), count, 1.5f, kind);
        reference.exp(y.data(), count, 1.5f, kind);
        EXPECT_EQ(x, y);
        for (const bool fused : {false, true}) {
          ops.gate(a.data(), b.data(), count, fused, kind, x.data());
          reference.gate(a.data(), b.data(), count, fused, kind, y.data());
          EXPECT_EQ(x, y);
        }
      }
    }
  }
}

TEST(RowOps, ADotProductIsOne) {
  const std::vector<float> a = Random(1000, 5);
  const std::vector<float> b = Random(1000, 6);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  EXPECT_NEAR(RowOpsFor(BestTarget()).dot(a.data(), b.data(), a.size()), sum, 1e-5);
}

TEST(RowOps, GatesAreSiluTimesUpAndFusingMovesOnlyTheLastBits) {
  const std::vector<float> gate = Random(999, 7, 8.0f);
  const std::vector<float> up = Random(999, 8);
  std::vector<float> fused(999), unfused(999);
  const RowOps& ops = RowOpsFor(BestTarget());
  ops.gate(gate.data(), up.data(), 999, true, ExpKind::kAccurate, fused.data());
  ops.gate(gate.data(), up.data(), 999, false, ExpKind::kAccurate, unfused.data());
  EXPECT_NE(fused, unfused);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double exact = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
    EXPECT_NEAR(fused[i], exact, 6e-7 * std::fabs(exact));
    EXPECT_NEAR(unfused[i], exact, 6e-7 * std::fabs(exact));
  }
}

}  // namespace
}  // namespace kcc
