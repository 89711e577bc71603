// The log-probs of chosen tokens on a tape, and the gradient of a weighted sum of them.
//
// Log-probs have the bits of the engine's own (lab/logprob.h), so a rollout of the same kernel has
// the same ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kcc/lab/fork_join.h"
#include "kcc/lab/tape.h"
#include "kcc/numeric/target.h"

namespace kcc {

class LogProbs {
 public:
  LogProbs(size_t vocab, ForkJoin& pool, Target target = BestTarget())
      : vocab_(vocab), pool_(pool), target_(target) {}

  // tokens[i] is the token chosen after tape.head_rows[i]; negative: none, whose log-prob is 0.
  // Precondition: one for each of them, below the vocabulary.
  std::vector<float> Of(const Tape& tape, std::span<const int32_t> tokens);

  // d(sum_i weights[i] log p(tokens[i])) / d logits, after Of; rows of `stride` floats, zeros
  // beyond the vocabulary.
  void Gradient(const Tape& tape, std::span<const int32_t> tokens, std::span<const float> weights,
                size_t stride, std::vector<float>* gradient) const;

 private:
  size_t vocab_;
  ForkJoin& pool_;
  Target target_;
  std::vector<double> log_sums_;
};

}  // namespace kcc
