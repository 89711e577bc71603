// A training run in a folder: its state and its log while it goes on, and a checkpoint at the end.
//
//   state.safetensors   what the run needs to go on (state_file.h); there from the first moment on
//   log.jsonl           a line for each step: loss, rate, length of the gradient. No clock in it
//   config.json, model.safetensors, tokenizer files   the checkpoint, at the end
//
// A run may be killed at any moment and resumed: it then has the same bits in every file as one
// that was not.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/checkpoint_writer.h"
#include "kcc/train/trainer.h"

namespace kcc {

// What a run starts from.
struct TrainStart {
  Checkpoint checkpoint;
  std::string config_json;
  std::vector<CompanionFile> companions;
};
Result<TrainStart> StartFromCheckpoint(const std::string& directory);
// Random weights of the model that a config.json describes; its tokenizer is that beside the
// config.
Result<TrainStart> StartFromConfig(const std::string& path, uint64_t seed);

struct RunPlan {
  std::string folder;  // made if it is not there
  bool resume = false;
  int64_t save_every = 100;   // steps
  DType dtype = DType::kF32;  // of the checkpoint: F32 or BF16
  size_t threads = 2;
  TrainOptions options;
};

struct RunHooks {
  std::function<void(const StepReport&)> step;
  std::function<bool()> stop;  // asked after each step: end early, with the state saved
};

struct RunResult {
  int64_t resumed_from = 0;  // step
  int64_t step = 0;
  double first_loss = 0;  // of the steps that were taken now
  double last_loss = 0;
  bool stopped = false;  // early: there is no checkpoint yet
  std::string digest;    // of the checkpoint
};

// Fails where the folder holds a run and none is to be resumed, or the other way round.
Result<RunResult> RunTraining(const TrainStart& start, const ExampleSet& examples,
                              const RunPlan& plan, const RunHooks& hooks);

}  // namespace kcc
