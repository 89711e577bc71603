// Whole sequences through the engine in one step, with a tape of what a backward pass reads.
//
// It is the engine's own step (Stepper), so in batch-invariant mode the logits have the bits that
// any rollout of the engine gives them. With batch=dynamic the sums are split as in a step of so
// many tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/lab/kv_cache.h"
#include "kcc/lab/stepper.h"
#include "kcc/lab/tape.h"

namespace kcc {

struct TapedSequence {
  std::string_view id;  // decides the replica, where the switch `route` asks for one
  std::span<const int32_t> tokens;
  size_t logits_from = 0;  // tokens from here on have logits, those that predict the token after
  // Positions for RoPE, one a token, for training at distances that no sequence has; empty: those
  // of the sequence.
  std::span<const int32_t> rope_positions = {};
};

class TapedForward {
 public:
  // The model, made for these switches, and the pool outlive it; the model's weights may change
  // between runs.
  TapedForward(const LabModel& model, const LabSwitches& switches, ForkJoin& pool,
               Target target = BestTarget());

  // Clears the tape and fills it; TapeRow::request is the sequence's index. Fails on token ids
  // outside the vocabulary and on sequences without tokens or beyond the model's positions.
  Result<> Run(std::span<const TapedSequence> sequences, Tape* tape);

 private:
  Result<> Check(const TapedSequence& sequence) const;

  const LabModel& model_;
  const LabSwitches& switches_;
  Stepper stepper_;
  std::unique_ptr<KvCache> cache_;  // of the largest step so far
};

}  // namespace kcc
