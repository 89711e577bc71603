// What a run of reinforcement learning does: the recipe, all of which decides bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kcc/lab/switches.h"
#include "kcc/rl/correction.h"
#include "kcc/rltrain/policy_loss.h"
#include "kcc/train/adamw.h"

namespace kcc {

// What the loss divides by: pi_old of PPO.
enum class OldPolicy : uint8_t {
  kRecompute,  // a training-side kernel on the weights that sampled
  kBypass,     // the log-probs of the rollout
};

struct ValueOptions {
  double gamma = 1, lambda = 0.95;
  double rate = 1e-3;  // of the value head's AdamW
};

struct HeldOutOptions {
  int64_t every = 25;      // steps; 0: never
  int64_t problems = 128;  // of those held out, at most
  bool greedy = true;      // else sampled at temperature 1
};

struct RlTrainOptions {
  LabSwitches train, infer;
  // Of the log-probs that a recompute gives; none: the kernel that is trained.
  std::optional<LabSwitches> recompute;
  OldPolicy old_policy = OldPolicy::kRecompute;
  RlCorrection correction;  // of w = old / rollout
  PolicyLossOptions loss;
  std::optional<ValueOptions> ppo;  // none: GRPO
  bool scale_advantages = true;     // GRPO: by the standard deviation of the group
  int64_t problems = 8;             // of a step
  int64_t group = 8;                // answers to each
  int64_t stale = 0;                // updates by which the weights that sample are behind
  bool score_all = false;           // groups without advantage too
  int64_t reference_every = 1;      // steps between two measurements of the KL; 0: never
  AdamWOptions adamw = {0.9, 0.98, 1e-8, 0};
  RateSchedule schedule = {ScheduleKind::kConstant, 1e-4, 1, 0, 100};
  double clip = 1.0;
  size_t pack_tokens = 4096;
  uint64_t seed = 1;
  HeldOutOptions held_out;
  bool obey = true;  // the orders of the contract
};

// Fails on what cannot be computed or would count a ratio twice.
Result<> CheckRlOptions(const RlTrainOptions& options);

}  // namespace kcc
