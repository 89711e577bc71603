// One step of reinforcement learning after the other: answers of the rollout kernel, their rewards,
// log-probs by the kernel that is trained, a correction of the gap between the two, and a step of
// AdamW on the loss of GRPO or PPO.
//
// A step's problems follow from seed and place, its answers from seed, step and problem. So
// options, task and state decide every bit, on any number of threads and any vector target, whether
// the run was interrupted or not. Which log-probs are which:
//   rollout     by `infer`, on weights that are `stale` updates behind; what sampled
//   old         what the loss divides by: by `recompute` on the weights that sampled; with bypass
//               those of the rollout
//   now         by `train` on the weights as they are; what gradients are of
//   reference   by `train` on the weights that the run started from
// The correction is of w = old / rollout, with bypass of now / rollout. Diagnostics and the
// contract are about now / rollout.
//
// A group of answers that all have the same reward has no gradient, and is neither scored nor
// trained on, unless the options ask for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/fork_join.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rltrain/contract_watch.h"
#include "kcc/rltrain/rl_options.h"
#include "kcc/rltrain/rl_state.h"
#include "kcc/rltrain/sampler.h"
#include "kcc/rltrain/step_arrays.h"
#include "kcc/rltrain/task.h"
#include "kcc/train/gradient_pass.h"

namespace kcc {

struct RlStepReport {
  int64_t step = 0;
  double rate = 0;
  double reward = 0;  // mean of all answers
  int64_t answers = 0, tokens = 0;
  int64_t groups = 0, groups_scored = 0;
  // Of the scored answers, from here on; without any there is nothing but zeros.
  int64_t tokens_scored = 0;
  RlMetrics metrics;
  RlCorrectionMetrics correction;
  int64_t clipped_low = 0, clipped_high = 0, clipped_dual = 0;
  double loss = 0, value_loss = 0;
  std::optional<double> kl_to_reference;  // k3 of the reference and now, a token
  double gradient_length = 0;             // before it was limited
  std::optional<StepJudgement> judgement;
  bool updated = false;  // the weights are others than before
  RlDump dump;           // what was judged
};

struct HeldOutReport {
  int64_t step = 0;
  int64_t problems = 0;
  double reward_train = 0, reward_infer = 0;  // under the kernel that is trained, and that samples
};

class RlTrainer {
 public:
  // The task and the pool outlive it. `checkpoint`: where a new run starts, and the reference.
  static Result<std::unique_ptr<RlTrainer>> Make(const Checkpoint& checkpoint,
                                                 const RlTrainOptions& options, const RlTask& task,
                                                 std::optional<Contract> contract, ForkJoin& pool,
                                                 Target target = BestTarget());

  const RlState& state() const { return state_; }
  // Precondition: a state of a run with the same options, task and checkpoint.
  void Resume(RlState state);

  // Fails where loss or gradient is not finite; the state is then what it was before the step.
  Result<RlStepReport> Step();
  // Rewards on held-out problems with the weights as they are.
  Result<HeldOutReport> HeldOut();

  const std::string& train_fingerprint() const { return train_fingerprint_; }
  const std::string& infer_fingerprint() const { return sampler_->fingerprint(); }

 private:
  RlTrainer(const Checkpoint& checkpoint, const RlTrainOptions& options, const RlTask& task,
            ForkJoin& pool);
  Result<> MakeKernels(const Checkpoint& checkpoint, std::optional<Contract> contract,
                       Target target);
  const ModelWeights& SamplingWeights() const;
  std::vector<AskedProblem> NextProblems();
  Result<std::vector<SampledAnswer>> SampleAnswers(RlStepReport* report);
  ScoredTokens Choose(const std::vector<SampledAnswer>& answers, RlStepReport* report) const;
  Result<> ScoreWith(GradientPass& pass, const ScoredTokens& scored, bool values,
                     std::vector<float>* log_probs);
  Result<> Score(ScoredTokens* scored, RlStepReport* report);
  void EstimateAdvantages(ScoredTokens* scored);
  Result<> Correct(const ScoredTokens& scored, RlStepReport* report);
  Result<> Descend(const ScoredTokens& scored, RlStepReport* report);
  Result<> Backward(const ScoredTokens& scored, const PolicyTokens& tokens,
                    const std::vector<float>& slopes, RlStepReport* report);
  void Update(const RlStepReport& report);

  ModelConfig config_;
  RlTrainOptions options_;
  const RlTask& task_;
  ForkJoin& pool_;
  std::unique_ptr<Sampler> sampler_, train_sampler_;  // the latter where kernels differ
  std::unique_ptr<GradientPass> pass_;
  std::unique_ptr<GradientPass> recompute_, reference_;  // where they are needed
  std::optional<ContractWatch> watch_;
  std::string train_fingerprint_;
  RlState state_;
  ModelWeights gradients_;
  // Of the step that is being taken.
  DataPosition next_;
  std::vector<std::pair<size_t, size_t>> packs_;  // of scored answers, computed at once
  std::vector<float> weights_;                    // of the correction
  std::vector<uint8_t> mask_;
  std::vector<double> values_, returns_;  // of PPO
  ValueHead::Gradient value_gradient_;
};

}  // namespace kcc
