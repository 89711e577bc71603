// A training run: examples in, weights out, one step at a time.
//
// A step takes examples until there are batch_tokens of them, computes the mean of -log p over
// their weighted tokens with the kernel's own forward pass, and its gradient, and takes a step of
// AdamW. A batch is computed in packs of at most pack_tokens, whose gradients are added in order,
// so memory has a limit. What a run does is decided by its options, its examples and its state: the
// same three give the same bits on any number of threads and any vector target, whether the run was
// interrupted or not.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/fork_join.h"
#include "kcc/lab/switches.h"
#include "kcc/numeric/target.h"
#include "kcc/train/adamw.h"
#include "kcc/train/examples.h"
#include "kcc/train/gradient_pass.h"

namespace kcc {

struct TrainOptions {
  LabSwitches kernel;
  AdamWOptions adamw;
  RateSchedule schedule;
  double clip = 1.0;           // longest gradient; 0: no limit
  double prompt_weight = 0.0;  // of a prompt's token in the loss; an output's weighs 1
  size_t batch_tokens = 4096;
  size_t pack_tokens = 4096;
  uint64_t seed = 1;  // of the order of the examples
};

// All that changes in a run.
struct TrainState {
  ModelWeights weights;
  AdamWMoments moments;
  int64_t step = 0;  // taken
  DataPosition position;
};

struct StepReport {
  int64_t step = 0;
  double loss = 0;  // mean -log p, weighted
  double rate = 0;
  double gradient_length = 0;  // before it was limited
  size_t examples = 0;
  size_t tokens = 0;
};

class Trainer {
 public:
  // The examples and the pool outlive it. `checkpoint` says the shapes; its weights are those of a
  // new run.
  static Result<std::unique_ptr<Trainer>> Make(const Checkpoint& checkpoint,
                                               const TrainOptions& options,
                                               std::span<const TrainExample> examples,
                                               ForkJoin& pool, Target target = BestTarget());

  const TrainState& state() const { return state_; }
  // Goes on from a state of a run with the same options and examples. Fails where the state stands
  // beyond the examples. Precondition: it has the model's shapes.
  Result<> Resume(TrainState state);

  // Fails where loss or gradient is not finite; the state is then what it was before the step.
  Result<StepReport> Step();

 private:
  Trainer(const Checkpoint& checkpoint, const TrainOptions& options,
          std::span<const TrainExample> examples, ForkJoin& pool,
          std::unique_ptr<GradientPass> pass);
  Result<double> AddPack(std::span<const TrainExample* const> pack, double total_weight);
  size_t FirstOf(const TrainExample& example) const;
  double WeightOf(const TrainExample& example) const;

  ModelConfig config_;
  TrainOptions options_;
  std::span<const TrainExample> examples_;
  ForkJoin& pool_;
  std::unique_ptr<GradientPass> pass_;
  TrainState state_;
  ExampleOrder order_;
  ModelWeights gradients_;
};

}  // namespace kcc
