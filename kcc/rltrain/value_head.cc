#include "kcc/rltrain/value_head.h"

#include <string>

namespace kcc {

ValueHead::ValueHead(size_t hidden)
    : weight_(hidden),
      bias_(1),
      first_weight_(hidden),
      first_bias_(1),
      second_weight_(hidden),
      second_bias_(1) {}

double ValueHead::Of(std::span<const float> hidden) const {
  auto value = static_cast<double>(bias_[0]);
  for (size_t i = 0; i < hidden.size(); ++i)
    value += static_cast<double>(weight_[i]) * static_cast<double>(hidden[i]);
  return value;
}

void ValueHead::AddGradient(std::span<const float> hidden, double value, double target,
                            double share, Gradient* gradient) const {
  gradient->weight.resize(weight_.size());
  const double gap = value - target;
  for (size_t i = 0; i < hidden.size(); ++i)
    gradient->weight[i] += share * gap * static_cast<double>(hidden[i]);
  gradient->bias += share * gap;
  gradient->loss += share / 2 * gap * gap;
}

void ValueHead::Step(const Gradient& gradient, double rate, int64_t step, ForkJoin& pool) {
  const auto size = static_cast<int64_t>(weight_.size());
  std::vector<float> weight(gradient.weight.begin(), gradient.weight.end());
  std::vector<float> bias = {static_cast<float>(gradient.bias)};
  AdamWTensors tensors;
  tensors.gradients = {{"weight", {size}, &weight}, {"bias", {1}, &bias}};
  tensors.weights = {{"weight", {size}, &weight_}, {"bias", {1}, &bias_}};
  tensors.first = {{"weight", {size}, &first_weight_}, {"bias", {1}, &first_bias_}};
  tensors.second = {{"weight", {size}, &second_weight_}, {"bias", {1}, &second_bias_}};
  AdamWStep(tensors, AdamWOptions{0.9, 0.999, 1e-8, 0}, step, rate, 1, pool);
}

std::vector<ModelTensor> ValueHead::Tensors() {
  if (weight_.empty()) return {};
  const auto size = static_cast<int64_t>(weight_.size());
  return {{"value.weight", {size}, &weight_},
          {"value.bias", {1}, &bias_},
          {"value.first.weight", {size}, &first_weight_},
          {"value.first.bias", {1}, &first_bias_},
          {"value.second.weight", {size}, &second_weight_},
          {"value.second.bias", {1}, &second_bias_}};
}

}  // namespace kcc
