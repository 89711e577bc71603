#include "kcc/rltrain/rl_options.h"

#include "kcc/base/strings.h"

namespace kcc {

Result<> CheckRlOptions(const RlTrainOptions& options) {
  KCC_TRY_VOID(CheckSwitches(options.train));
  KCC_TRY_VOID(CheckSwitches(options.infer));
  if (options.recompute) KCC_TRY_VOID(CheckSwitches(*options.recompute));
  KCC_TRY_VOID(CheckCorrection(options.correction));
  const bool bypass = options.old_policy == OldPolicy::kBypass;
  if (bypass && options.recompute) {
    return InvalidError(
        "bypass takes the rollout's log-probs as the old ones, so that nothing is recomputed; "
        "leave out one of the two");
  }
  if (bypass && options.correction.weight.mode != RlWeightMode::kOff) {
    return InvalidError(
        "with bypass the ratio of the loss holds the gap between the kernels already, and a weight "
        "would count it twice; rejection and veto can be used");
  }
  if (!options.ppo && options.group < 2) {
    return InvalidError(
        "an advantage of GRPO is a difference from the other answers to the same problem: a group "
        "has at least two");
  }
  if (options.loss.dual_clip > 0 && options.loss.dual_clip <= 1 + options.loss.clip_high) {
    return InvalidError("the dual clip bounds ratios beyond the clip range: it must be above " +
                        ShortestNumber(1 + options.loss.clip_high));
  }
  if (options.loss.kl > 0 && options.reference_every != 1) {
    return InvalidError("the loss holds the KL to the reference, which every step then computes");
  }
  return {};
}

}  // namespace kcc
