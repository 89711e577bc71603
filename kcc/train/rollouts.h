// Rollouts of a kernel of the lab, with the bits that verification compares; and the trainer's side
// of the comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/lab/lab_model.h"
#include "kcc/train/gradient_pass.h"

namespace kcc {

// A prompt with the engine's own continuation; by token of the continuation the log-prob and a hash
// of all logits.
struct Rollout {
  KernelRequest request;
  std::vector<float> log_probs;
  std::vector<uint64_t> rows;
};

struct RolloutBatch {
  std::vector<Rollout> rollouts;
  uint64_t preemptions = 0;
};

// Every prompt is continued by exactly `output_tokens`, at temperature 1.
Result<RolloutBatch> MakeRollouts(const LabModel& model, const LabSwitches& switches,
                                  std::span<const KernelRequest> prompts, int32_t output_tokens,
                                  uint64_t seed);

// Called for each token: place in its rollout's continuation, the trainer's log-prob, whether all
// logits were equal.
using ComparedToken =
    std::function<void(const Rollout& rollout, size_t place, float trainer, bool same_row)>;

// The trainer's forward pass over the rollouts in this order, in packs of at most `pack_tokens`.
Result<> CompareWithTrainer(std::span<const Rollout* const> rollouts, size_t pack_tokens,
                            GradientPass& trainer, const ComparedToken& compared);

}  // namespace kcc
