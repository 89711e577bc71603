// How much of PPO's clip range the two kernels spend before the policy has moved at all.
//
// PPO clips the ratio of a token to [1 - eps, 1 + eps], which was meant for the update. Where the
// engine's kernel differs from the trainer's, that ratio is off 1 already: eps is a budget on the
// pair of kernels too (Kernel Contracts, section 6.3). Spent of it is mean |w - 1| / eps. Where the
// dump holds the trainer's log-probs of the weights that sampled, kernels (old / rollout) and
// staleness (train / old) are told apart; else both are in train / rollout.
#pragma once

#include <cstdint>
#include <optional>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"

namespace kcc {

struct RlClipSpending {
  double mean_distance = 0;  // mean |w - 1| over tokens; NaN without any
  double share = 0;          // of epsilon: mean_distance / epsilon
  int64_t tokens = 0;
  int64_t tokens_outside = 0;  // with |w - 1| > epsilon: clipped by the gap alone
};

struct RlClipBudget {
  double epsilon = 0.2;
  RlClipSpending together;                           // train / rollout
  std::optional<RlClipSpending> kernels, staleness;  // known with `old` alone
};

// epsilon > 0. Tokens that one side gives no chance count as outside, at distance 1 or, where w is
// infinite, in no mean.
Result<RlClipBudget> ClipBudget(const RlBatch& batch, double epsilon);

}  // namespace kcc
