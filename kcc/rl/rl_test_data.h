// Batches for tests: owned arrays and the view of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kcc/rl/batch.h"

namespace kcc::testing {

struct OwnedBatch {
  int64_t rows = 0, columns = 0;
  std::vector<double> train, rollout, old, advantages;
  std::vector<uint8_t> mask;
  std::vector<int32_t> slice_of_row;
  std::vector<std::string> slice_names;

  RlBatch View() const {
    RlBatch batch;
    batch.rows = rows;
    batch.columns = columns;
    const auto array = [&](const auto& values, RlType type) {
      return RlArray{values.empty() ? nullptr : values.data(), type, columns};
    };
    batch.train = array(train, RlType::kF64);
    batch.rollout = array(rollout, RlType::kF64);
    batch.old = array(old, RlType::kF64);
    batch.mask = array(mask, RlType::kU8);
    batch.advantages = array(advantages, RlType::kF64);
    batch.advantage_per_row = advantages.size() == static_cast<size_t>(rows);
    if (batch.advantage_per_row) batch.advantages.row_stride = 1;
    batch.slice_of_row = slice_of_row;
    batch.slice_names = slice_names;
    return batch;
  }

  // Rows [begin, end) as a batch of their own.
  OwnedBatch Part(int64_t begin, int64_t end) const {
    OwnedBatch part;
    part.rows = end - begin;
    part.columns = columns;
    const auto cut = [&](const auto& from, auto& to, int64_t width) {
      if (!from.empty()) to.assign(from.begin() + begin * width, from.begin() + end * width);
    };
    cut(train, part.train, columns);
    cut(rollout, part.rollout, columns);
    cut(old, part.old, columns);
    cut(mask, part.mask, columns);
    cut(advantages, part.advantages, advantages.size() == static_cast<size_t>(rows) ? 1 : columns);
    cut(slice_of_row, part.slice_of_row, 1);
    part.slice_names = slice_names;
    return part;
  }
};

// Log-probs of a plausible policy with Gaussian noise of sd `noise` between the sides; every third
// row has a hole in its mask, and rows have random lengths.
inline OwnedBatch NoisyBatch(int64_t rows, int64_t columns, double noise, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> surprise(2.0);
  OwnedBatch batch;
  batch.rows = rows;
  batch.columns = columns;
  batch.slice_names = {"chat", "code", "math"};
  for (int64_t r = 0; r < rows; ++r) {
    const auto length = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(columns));
    batch.slice_of_row.push_back(static_cast<int32_t>(r % 3));
    batch.advantages.push_back(normal(random));
    for (int64_t t = 0; t < columns; ++t) {
      const double rollout = -surprise(random) - 1e-2;
      batch.rollout.push_back(rollout);
      batch.train.push_back(std::min(0.0, rollout + noise * normal(random)));
      const bool hole = r % 3 == 0 && t % 7 == 3;
      batch.mask.push_back(t < length && !hole);
    }
  }
  return batch;
}

}  // namespace kcc::testing
