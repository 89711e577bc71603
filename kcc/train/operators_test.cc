#include "kcc/train/operators.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kcc/train/attention_backward.h"
#include "kcc/train/products.h"
#include "kcc/train/train_test_data.h"

namespace kcc {
namespace {

using testing::Doubles;
using testing::FiniteDifferences;
using testing::RandomFloats;
using testing::RelativeGap;

// Every operator: a forward pass in double, written down as its definition, and the gradient of
// sum_i c_i y_i by finite differences beside the one by hand.

std::vector<double> Norm(const Doubles& x, const Doubles& gain, double eps) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double rms = std::sqrt(squares / static_cast<double>(x.size()) + eps);
  Doubles y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(x[i] / rms * gain[i]);
  return y;
}

double Weighted(const Doubles& y, const std::vector<float>& c) {
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += y[i] * c[i];
  return sum;
}

TEST(Operators, ANormHasTheGradientOfItsDefinition) {
  for (const size_t n : {size_t{16}, size_t{50}, size_t{700}}) {
    const auto x = RandomFloats(n, 1, 2);
    const auto gain = RandomFloats(n, 2);
    const auto c = RandomFloats(n, 3);
    for (const Target target : AvailableTargets()) {
      std::vector<float> dx(n);
      const float inverse =
          NormBackward(x, gain, 1e-5, c.data(), false, RowOpsFor(target), dx.data());
      const auto expected = FiniteDifferences(x, [&](const Doubles& at) {
        return Weighted(Norm(at, {gain.begin(), gain.end()}, 1e-5), c);
      });
      EXPECT_LT(RelativeGap(dx, expected), 1e-6) << n;
      std::vector<float> dgain(n);
      for (size_t i = 0; i < n; ++i) dgain[i] = c[i] * x[i] * inverse;
      const auto of_gain = FiniteDifferences(gain, [&](const Doubles& at) {
        return Weighted(Norm({x.begin(), x.end()}, at, 1e-5), c);
      });
      EXPECT_LT(RelativeGap(dgain, of_gain), 1e-6) << n;
      std::vector<float> added(n, 1.0f);
      NormBackward(x, gain, 1e-5, c.data(), true, RowOpsFor(target), added.data());
      for (size_t i = 0; i < n; ++i) EXPECT_FLOAT_EQ(added[i], 1.0f + dx[i]);
      std::vector<float> in_place = c;
      NormBackward(x, gain, 1e-5, in_place.data(), false, RowOpsFor(target), in_place.data());
      EXPECT_EQ(in_place, dx);
    }
  }
}

TEST(Operators, AGateHasTheGradientOfItsDefinition) {
  const size_t n = 333;
  const auto gate = RandomFloats(n, 1, 6);
  const auto up = RandomFloats(n, 2);
  const auto c = RandomFloats(n, 3);
  const auto loss = [&](const Doubles& g, const Doubles& u) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += c[i] * g[i] / (1 + std::exp(-g[i])) * u[i];
    return sum;
  };
  const Doubles wide_gate(gate.begin(), gate.end()), wide_up(up.begin(), up.end());
  const auto of_gate =
      FiniteDifferences(gate, [&](const Doubles& at) { return loss(at, wide_up); });
  const auto of_up = FiniteDifferences(up, [&](const Doubles& at) { return loss(wide_gate, at); });
  for (const Target target : AvailableTargets()) {
    std::vector<float> dgate(n), dup(n);
    GateBackward(gate, up, c.data(), RowOpsFor(target), dgate.data(), dup.data());
    EXPECT_LT(RelativeGap(dgate, of_gate), 1e-6);
    EXPECT_LT(RelativeGap(dup, of_up), 1e-6);
  }
}

TEST(Operators, ALogProbHasTheGradientOfItsDefinition) {
  const size_t n = 50;
  const auto logits = RandomFloats(n, 1, 9);
  const auto log_prob = [&](const Doubles& z) {
    double sum = 0;
    for (const double value : z) sum += std::exp(value);
    return -0.75 * (z[7] - std::log(sum));
  };
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z));
  for (const Target target : AvailableTargets()) {
    std::vector<float> gradient(n);
    LogProbBackward(logits, std::log(sum), 7, -0.75f, RowOpsFor(target), gradient.data());
    EXPECT_LT(RelativeGap(gradient, FiniteDifferences(logits, log_prob)), 1e-6);
  }
}

// A certain token: nothing overflows, and the gradient is what is left of the others.
TEST(Operators, ALogProbOfACertainTokenHasAlmostNoGradient) {
  std::vector<float> logits(8, -90.0f);
  logits[3] = 90.0f;
  std::vector<float> gradient(8);
  LogProbBackward(logits, 90.0, 3, 1.0f, RowOpsFor(BestTarget()), gradient.data());
  for (const float value : gradient) EXPECT_LT(std::fabs(value), 1e-30f);
  LogProbBackward(logits, 90.0, 0, 1.0f, RowOpsFor(BestTarget()), gradient.data());
  EXPECT_FLOAT_EQ(gradient[0], 1.0f);
  EXPECT_FLOAT_EQ(gradient[3], -1.0f);
}

struct AttentionCase {
  size_t tokens, heads;
  static constexpr size_t kDim = 16;
  std::vector<float> query, key, value, c;
  std::vector<size_t> rows;

  AttentionCase(size_t count, size_t group) : tokens(count), heads(group) {
    query = RandomFloats(tokens * heads * kDim, 1, 2);
    key = RandomFloats(tokens * kDim, 2, 2);
    value = RandomFloats(tokens * kDim, 3);
    c = RandomFloats(tokens * heads * kDim, 4);
    for (size_t t = 0; t < tokens; ++t) rows.push_back(t);
  }
  double Loss(const Doubles& q, const Doubles& k, const Doubles& v) const {
    double loss = 0;
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t h = 0; h < heads; ++h) {
        const size_t at = (t * heads + h) * kDim;
        Doubles weights;
        double total = 0;
        for (size_t j = 0; j <= t; ++j) {
          double score = 0;
          for (size_t d = 0; d < kDim; ++d) score += q[at + d] * k[j * kDim + d];
          weights.push_back(std::exp(score / 4));
          total += weights.back();
        }
        for (size_t j = 0; j <= t; ++j) {
          for (size_t d = 0; d < kDim; ++d)
            loss += c[at + d] * weights[j] / total * v[j * kDim + d];
        }
      }
    }
    return loss;
  }
};

struct AttentionGradients {
  std::vector<float> query, key, value;
};

AttentionGradients GradientsOf(const AttentionCase& a, Target target) {
  const size_t width = a.heads * AttentionCase::kDim;
  const size_t dim = AttentionCase::kDim;
  AttentionGradients made{std::vector<float>(a.query.size()), std::vector<float>(a.key.size()),
                          std::vector<float>(a.value.size())};
  AttentionGradientJob job;
  job.rows = a.rows;
  job.heads = a.heads;
  job.head_dim = dim;
  job.query = {a.query.data(), width};
  job.key = {a.key.data(), dim};
  job.value = {a.value.data(), dim};
  job.out_gradient = {a.c.data(), width};
  job.query_gradient = {made.query.data(), width};
  job.key_gradient = {made.key.data(), dim};
  job.value_gradient = {made.value.data(), dim};
  AttentionGradientScratch scratch;
  AttentionBackward(job, RowOpsFor(target), &scratch);
  return made;
}

// Around the ends of vectors and of blocks of 32 tokens.
TEST(Operators, AttentionHasTheGradientOfItsDefinition) {
  for (const auto& [tokens, heads] :
       std::vector<std::pair<size_t, size_t>>{{1, 1}, {2, 2}, {17, 3}, {32, 1}, {33, 2}, {45, 1}}) {
    const AttentionCase a(tokens, heads);
    const Doubles q(a.query.begin(), a.query.end()), k(a.key.begin(), a.key.end()),
        v(a.value.begin(), a.value.end());
    const auto of_query =
        FiniteDifferences(a.query, [&](const Doubles& at) { return a.Loss(at, k, v); });
    const auto of_key =
        FiniteDifferences(a.key, [&](const Doubles& at) { return a.Loss(q, at, v); });
    const auto of_value =
        FiniteDifferences(a.value, [&](const Doubles& at) { return a.Loss(q, k, at); });
    const AttentionGradients expected = GradientsOf(a, BestTarget());
    EXPECT_LT(RelativeGap(expected.value, of_value), 2e-6) << tokens;
    if (tokens > 1) {
      EXPECT_LT(RelativeGap(expected.query, of_query), 2e-6) << tokens;
      EXPECT_LT(RelativeGap(expected.key, of_key), 2e-6) << tokens;
    }
    for (const Target target : AvailableTargets()) {
      const AttentionGradients made = GradientsOf(a, target);
      EXPECT_EQ(made.query, expected.query) << TargetName(target);
      EXPECT_EQ(made.key, expected.key) << TargetName(target);
      EXPECT_EQ(made.value, expected.value) << TargetName(target);
    }
  }
}

// Rows of a batch lie anywhere; those of others are left alone.
TEST(Operators, AttentionReadsAndWritesItsOwnRows) {
  AttentionCase a(9, 1);
  const AttentionGradients expected = GradientsOf(a, BestTarget());
  AttentionCase moved(12, 1);
  moved.rows = {3, 4, 5, 7, 8, 0, 1, 10, 11};
  const auto move = [&](const std::vector<float>& from, std::vector<float>* to) {
    for (size_t t = 0; t < a.rows.size(); ++t) {
      std::copy_n(&from[t * AttentionCase::kDim], AttentionCase::kDim,
                  &(*to)[moved.rows[t] * AttentionCase::kDim]);
    }
  };
  move(a.query, &moved.query);
  move(a.key, &moved.key);
  move(a.value, &moved.value);
  move(a.c, &moved.c);
  const AttentionGradients made = GradientsOf(moved, BestTarget());
  std::vector<float> placed(12 * AttentionCase::kDim);
  move(expected.key, &placed);
  EXPECT_EQ(made.key, placed);
  std::fill(placed.begin(), placed.end(), 0.0f);
  move(expected.query, &placed);
  EXPECT_EQ(made.query, placed);
}

// Rows beyond one part, matrices that do not end with a vector, stacks.
TEST(Operators, ProductsHaveTheGradientsOfTheirDefinition) {
  for (const size_t rows : {size_t{1}, size_t{37}, kRowsOfPart + 40}) {
    const size_t inputs = 64;
    const std::vector<size_t> outputs = {50, 16};
    const size_t stride = GradientStride(66);
    const auto first = RandomFloats(50 * inputs, 1);
    const auto second = RandomFloats(16 * inputs, 2);
    const PackedMatrix packed[] = {PackedMatrix(first, 50, inputs, DType::kF32),
                                   PackedMatrix(second, 16, inputs, DType::kF32)};
    const auto x = RandomFloats(rows * inputs, 3);
    auto dy = RandomFloats(rows * stride, 4);
    for (size_t r = 0; r < rows; ++r) std::fill_n(&dy[r * stride + 66], stride - 66, 0.0f);
    Doubles dx(rows * inputs), dfirst(first.size(), 1.0), dsecond(second.size(), 1.0);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t n = 0; n < 66; ++n) {
        const double g = dy[r * stride + n];
        for (size_t k = 0; k < inputs; ++k) {
          dx[r * inputs + k] +=
              g * (n < 50 ? first[n * inputs + k] : second[(n - 50) * inputs + k]);
          (n < 50 ? dfirst[n * inputs + k] : dsecond[(n - 50) * inputs + k]) +=
              g * x[r * inputs + k];
        }
      }
    }
    std::vector<float> expected_first;
    for (const size_t threads : {size_t{1}, size_t{2}}) {
      for (const Target target : AvailableTargets()) {
        ForkJoin pool(threads);
        TransposedStack stack;
        stack.Assign(std::vector<const PackedMatrix*>{&packed[0], &packed[1]});
        std::vector<float> made(rows * inputs);
        stack.InputGradient(dy.data(), rows, pool, target, made.data());
        EXPECT_LT(RelativeGap(made, dx), 1e-6);
        std::vector<float> made_first(first.size(), 1.0f), made_second(second.size(), 1.0f);
        WeightGradients gradients(pool, target);
        gradients.Add(
            dy.data(), stride, x.data(), inputs, rows,
            std::vector<WeightGradientPart>{{50, made_first.data()}, {16, made_second.data()}});
        EXPECT_LT(RelativeGap(made_first, dfirst), 1e-6);
        EXPECT_LT(RelativeGap(made_second, dsecond), 1e-6);
        if (expected_first.empty()) expected_first = made_first;
        EXPECT_EQ(made_first, expected_first) << threads << " " << TargetName(target);
      }
    }
  }
}

}  // namespace
}  // namespace kcc
