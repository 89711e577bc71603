// AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) in float32, as torch.optim.AdamW computes
// it, with the length of the gradient limited and a schedule for the rate.
//
// With g the gradient, m and v its moments and t the step, counted from 1:
//   p <- p - rate decay p                  (matrices alone: gains and biases are not drawn to 0)
//   m <- m + (1 - b1) (g - m)              v <- b2 v + (1 - b2) g^2
//   p <- p - rate / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
// Every element is computed by itself and every sum has a fixed order: threads and targets change
// no bit.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/fork_join.h"

namespace kcc {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-8;
  double decay = 0.05;

  bool operator==(const AdamWOptions&) const = default;
};

struct AdamWMoments {
  ModelWeights first, second;
};

// One step, the `step`-th, on the gradients times `scale`.
void AdamWStep(const ModelConfig& config, const AdamWOptions& options, int64_t step, double rate,
               double scale, ModelWeights* gradients, ForkJoin& pool, ModelWeights* weights,
               AdamWMoments* moments);

// The same for tensors of any kind, side by side; those of two dimensions are matrices.
struct AdamWTensors {
  std::vector<ModelTensor> gradients, weights, first, second;
};
void AdamWStep(const AdamWTensors& tensors, const AdamWOptions& options, int64_t step, double rate,
               double scale, ForkJoin& pool);

// sqrt(sum g^2) over all tensors, in double.
double GradientLength(const ModelConfig& config, ModelWeights* gradients, ForkJoin& pool);
// What gradients of this length are multiplied by so that they are no longer than `most`; 0: no
// limit.
double ClipScale(double length, double most);

enum class ScheduleKind : uint8_t { kConstant, kLinear, kCosine };
struct RateSchedule {
  ScheduleKind kind = ScheduleKind::kCosine;
  double rate = 1e-3;   // the highest
  double floor = 0.02;  // the last step's rate, as a share of it; of kConstant none
  int64_t warmup = 0;   // steps in which the rate rises to what it would be
  int64_t steps = 0;    // of the whole run

  bool operator==(const RateSchedule&) const = default;
};
// Of the `step`-th step, counted from 1.
double RateAt(const RateSchedule& schedule, int64_t step);
Result<ScheduleKind> ParseScheduleKind(std::string_view name);  // constant, linear, cosine
std::string_view Name(ScheduleKind kind);

}  // namespace kcc
