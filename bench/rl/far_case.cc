#include "bench/rl/far_case.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace kcc::bench {
namespace {

using Random = std::mt19937_64;

double Uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}
double LogUniform(Random& random, double low, double high) {
  return std::exp(Uniform(random, std::log(low), std::log(high)));
}
bool Chance(Random& random, double p) { return Uniform(random, 0, 1) < p; }

// How the tokens of one case differ.
struct Noise {
  double size = 0, mean = 0;  // of each token's d
  double product_max = 0;     // if > 0: rows have products of up to e^+-this, evenly by token
  double spike = 0;           // the chance of a token near +-700
};

Noise RandomNoise(Random& random) {
  Noise noise;
  noise.size = LogUniform(random, 1e-6, 700);
  switch (random() % 5) {
    case 0:
      break;
    case 1:
      noise.mean = Uniform(random, -3, 3) * noise.size;
      break;
    case 2:  // a small drift that long rows make large
      noise.size = LogUniform(random, 1e-4, 0.1);
      noise.mean = Uniform(random, -1, 1) * noise.size;
      break;
    case 3:
      noise.size = Chance(random, 0.5) ? 0 : LogUniform(random, 1e-6, 0.1);
      noise.product_max = LogUniform(random, 1e-3, 3000);
      break;
    default:
      noise.size = LogUniform(random, 1e-6, 0.1);
      noise.spike = LogUniform(random, 1e-3, 1);
  }
  return noise;
}

std::vector<double> RandomRow(Random& random, const Noise& noise, size_t length) {
  std::normal_distribution<double> normal;
  const double product =
      noise.product_max > 0 ? Uniform(random, -noise.product_max, noise.product_max) : 0;
  std::vector<double> d(length);
  for (double& x : d) {
    x = noise.mean + noise.size * normal(random) + product / static_cast<double>(length);
    if (noise.spike > 0 && Chance(random, noise.spike)) {
      x = (Chance(random, 0.5) ? 1 : -1) * Uniform(random, 300, 700);
    }
    x = std::clamp(x, -699.9, 699.9);
  }
  return d;
}

RlCorrection RandomCorrection(Random& random) {
  RlCorrection out;
  constexpr RlWeightMode kModes[] = {RlWeightMode::kOff,  RlWeightMode::kFull,
                                     RlWeightMode::kFull, RlWeightMode::kTruncate,
                                     RlWeightMode::kClip, RlWeightMode::kMask};
  out.weight.mode = kModes[random() % std::size(kModes)];
  out.weight.level = kRlLevels[random() % 4];
  out.weight.low = LogUniform(random, 0.01, 1);
  out.weight.high = LogUniform(random, 1, 100);
  out.weight.batch_normalize = Chance(random, 0.3);
  if (Chance(random, 0.2)) {
    out.reject = {{RlStatistic::kRatio, RlAggregate::kSequenceMean, LogUniform(random, 0.1, 1),
                   LogUniform(random, 1, 10)}};
  }
  return out;
}

}  // namespace

RlBatch FarCase::View(int64_t begin, int64_t end, std::vector<int64_t>* offsets_of_part) const {
  const int64_t first = offsets[static_cast<size_t>(begin)];
  offsets_of_part->clear();
  for (int64_t r = begin; r <= end; ++r) {
    offsets_of_part->push_back(offsets[static_cast<size_t>(r)] - first);
  }
  RlBatch batch;
  batch.rows = end - begin;
  batch.offsets = *offsets_of_part;
  if (train_float.empty()) {
    batch.train = {train.data() + first, RlType::kF64, 0};
    batch.rollout = {rollout.data() + first, RlType::kF64, 0};
  } else {
    batch.train = {train_float.data() + first, RlType::kF32, 0};
    batch.rollout = {rollout_float.data() + first, RlType::kF32, 0};
  }
  if (!mask.empty()) batch.mask = {mask.data() + first, RlType::kU8, 0};
  if (!advantages.empty()) batch.advantages = {advantages.data() + begin, RlType::kF64, 1};
  return batch;
}

FarCase MakeFarCase(uint64_t seed) {
  Random random(seed);
  FarCase out;
  const Noise noise = RandomNoise(random);
  const auto rows = static_cast<size_t>(LogUniform(random, 1, 33));
  // Few cases have rows of 16k tokens; most are short, or a million of them would take a day.
  const double length_max = Chance(random, 0.002) ? 16385 : Chance(random, 0.05) ? 1025 : 65;
  const bool equal_rows = Chance(random, 0.1);
  const bool as_float = Chance(random, 0.5), with_mask = Chance(random, 0.4);
  size_t length = 0;
  std::vector<double> d;
  for (size_t r = 0; r < rows; ++r) {
    if (r == 0 || !equal_rows) {
      length = static_cast<size_t>(LogUniform(random, 1, length_max));
      d = RandomRow(random, noise, length);
    }
    bool counts = true;
    for (const double x : d) {
      const double base = -Uniform(random, 0, 1);
      const double train = base + std::min(x, 0.0), rollout = base - std::max(x, 0.0);
      if (as_float) {
        out.train_float.push_back(static_cast<float>(train));
        out.rollout_float.push_back(static_cast<float>(rollout));
      } else {
        out.train.push_back(train);
        out.rollout.push_back(rollout);
      }
      if (!with_mask) continue;
      if (Chance(random, 0.15)) counts = !counts;
      out.mask.push_back(counts);
    }
    out.offsets.push_back(out.offsets.back() + static_cast<int64_t>(length));
  }
  if (Chance(random, 0.5)) {
    for (size_t r = 0; r < rows; ++r) out.advantages.push_back(Uniform(random, -2, 2));
  }
  out.correction = RandomCorrection(random);
  return out;
}

}  // namespace kcc::bench
