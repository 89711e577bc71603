// Finite differences and random numbers for the trainer's tests.
#pragma once

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "kcc/lab/lab_test_data.h"

namespace kcc::testing {

using Doubles = std::vector<double>;

// Uniform in [-size, size).
inline std::vector<float> RandomFloats(size_t count, unsigned seed, float size = 1.0f) {
  std::mt19937 bits(seed);
  std::vector<float> values(count);
  for (float& value : values) value = (static_cast<float>(bits() >> 8) * 0x1p-23f - 1.0f) * size;
  return values;
}

// Central differences of the fourth order of a function in double.
template <class Loss>
Doubles FiniteDifferences(const std::vector<float>& at, const Loss& loss) {
  Doubles x(at.begin(), at.end());
  Doubles gradient;
  constexpr double kStep = 1e-3;
  for (double& value : x) {
    const double kept = value;
    const auto moved = [&](double steps) {
      value = kept + steps * kStep;
      return loss(x);
    };
    gradient.push_back((8 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12 * kStep));
    value = kept;
  }
  return gradient;
}

// |a - b| / |b|, of vectors.
template <class Left, class Right>
double RelativeGap(const Left& a, const Right& b) {
  double gap = 0;
  double size = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    gap += difference * difference;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(gap / size);
}

// All that the lab computes, in small: sizes that are no multiples of a vector's where they need
// not be.
inline ModelConfig LlamaConfig() { return SmallConfig(); }
inline ModelConfig QwenConfig() {
  ModelConfig config = SmallConfig();
  config.heads = 6;
  config.kv_heads = 3;
  config.qkv_bias = true;
  config.output_bias = true;
  config.qk_norm = true;
  config.rope_scaling = {RopeScaling::Kind::kLlama3, 8, 1, 4, 64};
  return config;
}
inline ModelConfig TiedConfig() {
  ModelConfig config = SmallConfig();
  config.tied = true;
  config.qkv_bias = true;
  return config;
}

}  // namespace kcc::testing
