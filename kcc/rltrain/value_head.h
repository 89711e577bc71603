// PPO's value head: V = w h + b on the hidden state that the output matrix reads. The state is
// detached: the head's gradient reaches w and b alone.
//
// Its loss is 1/2 sum c (V - return)^2 over tokens; sums are in double, in the order of the tokens.
#pragma once

#include <span>
#include <vector>

#include "kcc/lab/fork_join.h"
#include "kcc/lab/model_config.h"
#include "kcc/train/adamw.h"

namespace kcc {

class ValueHead {
 public:
  ValueHead() = default;
  // All zeros: nothing is expected yet.
  explicit ValueHead(size_t hidden);

  double Of(std::span<const float> hidden) const;

  // A gradient while it is added up.
  struct Gradient {
    std::vector<double> weight;
    double bias = 0;
    double loss = 0;
  };
  // Adds the gradient of share/2 (value - target)^2, value being that of the hidden state.
  void AddGradient(std::span<const float> hidden, double value, double target, double share,
                   Gradient* gradient) const;
  // The `step`-th step of AdamW, without decay.
  void Step(const Gradient& gradient, double rate, int64_t step, ForkJoin& pool);

  // Weights and moments, for the state; none of a head that is not there.
  std::vector<ModelTensor> Tensors();

 private:
  std::vector<float> weight_, bias_;
  std::vector<float> first_weight_, first_bias_, second_weight_, second_bias_;
};

}  // namespace kcc
