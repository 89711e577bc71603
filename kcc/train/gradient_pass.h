// Log-probs of sequences with a kernel of the lab, and the gradient of a weighted sum of them.
//
// A batch is packed: sequences of any lengths are computed in one step of the engine, without
// padding. In batch-invariant mode the log-probs have the bits of a rollout; with batch=dynamic
// those of a step of so many tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/fork_join.h"
#include "kcc/lab/switches.h"
#include "kcc/numeric/target.h"

namespace kcc {

// The log-probs of tokens [first, tokens.size()) are wanted. Precondition: 1 <= first <
// tokens.size().
struct PackedSequence {
  std::string_view id;  // decides the replica, where the switch `route` asks for one
  std::span<const int32_t> tokens;
  size_t first = 1;
  std::span<const int32_t> rope_positions = {};  // one a token; empty: 0, 1, 2 …
};

class GradientPass {
 public:
  // Makes the model of the kernel. The pool outlives it.
  static Result<std::unique_ptr<GradientPass>> Make(const Checkpoint& checkpoint,
                                                    const LabSwitches& switches, ForkJoin& pool,
                                                    Target target = BestTarget());
  ~GradientPass();

  // Other weights of the same shapes; before the next Forward.
  void SetWeights(const ModelWeights& weights);

  // Fails on token ids outside the vocabulary and on sequences that the model has no positions for.
  Result<> Forward(std::span<const PackedSequence> batch);
  // Of the wanted tokens, sequence by sequence.
  std::span<const float> log_probs() const;
  // The logits that the i-th of them was read from.
  std::span<const float> LogitsOf(size_t i) const;
  // What the output matrix read there: the state of the last layer after the final norm.
  std::span<const float> HiddenOf(size_t i) const;
  // Adds the gradient of sum_i slopes[i] log_probs()[i], of the last Forward.
  void Backward(std::span<const float> slopes, ModelWeights* gradients);

 private:
  struct State;
  explicit GradientPass(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kcc
