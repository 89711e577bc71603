// A run of reinforcement learning in a folder: its state and its logs while it goes on, and a
// checkpoint at the end.
//
//   state.safetensors   what the run needs to go on (rl_state.h); there from the first moment on
//   log.jsonl           a line for each step
//   held-out.jsonl      rewards on held-out problems: before the first step, every so many steps,
//                       and after the last
//   steps/NNNNNNNN.safetensors   where asked for: the arrays of a step, as kcc rl reads them
//   curves.html         both logs as a page, where the run ends or stops
//   config.json, model.safetensors, tokenizer files   the checkpoint, at the end
//
// A run may be killed at any moment and resumed: it then has the same bits in every file as one
// that was not.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/rltrain/rl_options.h"
#include "kcc/rltrain/rl_trainer.h"
#include "kcc/rltrain/task.h"
#include "kcc/train/run.h"

namespace kcc {

struct RlRunPlan {
  std::string folder;  // made if it is not there
  bool resume = false;
  int64_t save_every = 25;    // steps
  DType dtype = DType::kF32;  // of the checkpoint: F32 or BF16
  size_t threads = 2;
  bool keep_steps = false;
  std::optional<Contract> contract;
  RlTrainOptions options;
};

struct RlRunHooks {
  std::function<void(const RlStepReport&)> step;
  std::function<bool()> stop;  // asked after each step: end early, with the state saved
};

struct RlRunResult {
  int64_t resumed_from = 0;  // step
  int64_t step = 0;
  int64_t updates = 0;                       // of the whole run
  double first_reward = 0, last_reward = 0;  // of the steps that were taken now
  std::optional<HeldOutReport> first, last;  // of what was measured now
  int64_t withheld = 0;                      // steps taken now whose update a clause withheld
  bool stopped = false;                      // early: there is no checkpoint yet
  std::optional<StepJudgement> stopped_by;   // the contract's order; none: somebody else
  std::string digest;                        // of the checkpoint
};

// Fails where the folder holds a run and none is to be resumed, or the other way round.
Result<RlRunResult> RunRl(const TrainStart& start, const RlTask& task, const RlRunPlan& plan,
                          const RlRunHooks& hooks);

}  // namespace kcc
