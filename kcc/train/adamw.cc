#include "kcc/train/adamw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kcc/lab/rope.h"

namespace kcc {
namespace {

constexpr std::array<std::string_view, 3> kScheduleNames = {"constant", "linear", "cosine"};
constexpr size_t kBlock =
    4096;  // elements that one thread takes together, and whose squares are summed together

// base^n by squaring: std::pow differs between C libraries.
double Power(double base, int64_t n) {
  double power = 1;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) power *= base;
    base *= base;
  }
  return power;
}

// A part of a tensor.
struct Block {
  size_t tensor;
  size_t begin;
  size_t count;
};

std::vector<Block> BlocksOf(const std::vector<ModelTensor>& tensors) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t size = tensors[i].values->size();
    for (size_t at = 0; at < size; at += kBlock)
      blocks.push_back({i, at, std::min(kBlock, size - at)});
  }
  return blocks;
}

// The numbers of a step, as every element needs them.
struct StepNumbers {
  float keep;  // 1 - rate decay
  float scale, one_minus_b1, b2, one_minus_b2;
  float rate;           // / (1 - b1^t)
  float second_length;  // sqrt(1 - b2^t)
  float epsilon;
};

// Elementwise, so whatever the compiler makes of it has the same bits.
void StepBlock(const StepNumbers& n, const float* gradient, size_t count, float* weight,
               float* first, float* second) {
  for (size_t i = 0; i < count; ++i) {
    const float g = gradient[i] * n.scale;
    const float m = first[i] + n.one_minus_b1 * (g - first[i]);
    const float v = n.b2 * second[i] + n.one_minus_b2 * g * g;
    first[i] = m;
    second[i] = v;
    const float divisor = std::sqrt(v) / n.second_length + n.epsilon;
    weight[i] = weight[i] * n.keep - n.rate * (m / divisor);
  }
}

}  // namespace

void AdamWStep(const AdamWTensors& tensors, const AdamWOptions& options, int64_t step, double rate,
               double scale, ForkJoin& pool) {
  const std::vector<Block> blocks = BlocksOf(tensors.weights);
  StepNumbers numbers{};
  numbers.scale = static_cast<float>(scale);
  numbers.one_minus_b1 = static_cast<float>(1 - options.beta1);
  numbers.b2 = static_cast<float>(options.beta2);
  numbers.one_minus_b2 = static_cast<float>(1 - options.beta2);
  numbers.rate = static_cast<float>(rate / (1 - Power(options.beta1, step)));
  numbers.second_length = static_cast<float>(std::sqrt(1 - Power(options.beta2, step)));
  numbers.epsilon = static_cast<float>(options.epsilon);
  pool.Run(blocks.size(), [&](size_t begin, size_t end) {
    StepNumbers n = numbers;
    for (size_t b = begin; b < end; ++b) {
      const Block& block = blocks[b];
      const auto at = [&](const std::vector<ModelTensor>& of) {
        return of[block.tensor].values->data() + block.begin;
      };
      const bool matrix = tensors.weights[block.tensor].shape.size() == 2;
      n.keep = static_cast<float>(matrix ? 1 - rate * options.decay : 1.0);
      StepBlock(n, at(tensors.gradients), block.count, at(tensors.weights), at(tensors.first),
                at(tensors.second));
    }
  });
}

void AdamWStep(const ModelConfig& config, const AdamWOptions& options, int64_t step, double rate,
               double scale, ModelWeights* gradients, ForkJoin& pool, ModelWeights* weights,
               AdamWMoments* moments) {
  AdamWStep({TensorsOf(config, gradients), TensorsOf(config, weights),
             TensorsOf(config, &moments->first), TensorsOf(config, &moments->second)},
            options, step, rate, scale, pool);
  if (config.tied) weights->lm_head = weights->embedding;
}

double GradientLength(const ModelConfig& config, ModelWeights* gradients, ForkJoin& pool) {
  const auto tensors = TensorsOf(config, gradients);
  const std::vector<Block> blocks = BlocksOf(tensors);
  std::vector<double> squares(blocks.size());
  pool.Run(blocks.size(), [&](size_t begin, size_t end) {
    for (size_t b = begin; b < end; ++b) {
      const float* values = tensors[blocks[b].tensor].values->data() + blocks[b].begin;
      std::array<double, 8> lanes{};  // independent sums, so that one does not wait for another
      for (size_t i = 0; i < blocks[b].count; ++i) {
        lanes[i % lanes.size()] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      }
      for (const double lane : lanes) squares[b] += lane;
    }
  });
  double sum = 0;
  for (const double value : squares) sum += value;
  return std::sqrt(sum);
}

double ClipScale(double length, double most) {
  return most > 0 && length > most ? most / length : 1.0;
}

double RateAt(const RateSchedule& schedule, int64_t step) {
  const double warm =
      schedule.warmup > 0
          ? std::min(1.0, static_cast<double>(step) / static_cast<double>(schedule.warmup))
          : 1.0;
  if (schedule.kind == ScheduleKind::kConstant) return schedule.rate * warm;
  // 1 at the first step, 0 at the last.
  const double done = schedule.steps > 1 ? static_cast<double>(std::min(step, schedule.steps) - 1) /
                                               static_cast<double>(schedule.steps - 1)
                                         : 0.0;
  double left = 1 - done;
  if (schedule.kind == ScheduleKind::kCosine) {
    double cosine = 0;
    double sine = 0;
    CosSin(done * 3.14159265358979323846, &cosine, &sine);
    left = 0.5 * (1 + cosine);
  }
  return schedule.rate * warm * (schedule.floor + (1 - schedule.floor) * left);
}

std::string_view Name(ScheduleKind kind) { return kScheduleNames[static_cast<size_t>(kind)]; }

Result<ScheduleKind> ParseScheduleKind(std::string_view name) {
  for (size_t i = 0; i < kScheduleNames.size(); ++i) {
    if (kScheduleNames[i] == name) return static_cast<ScheduleKind>(i);
  }
  return InvalidError("a schedule is constant, linear or cosine, not '" + std::string(name) + "'");
}

}  // namespace kcc
