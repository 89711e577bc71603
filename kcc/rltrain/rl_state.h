// All that changes in a run of reinforcement learning, and its file.
//
// Tensors beside those of a training run (train/state_file.h): `older.K.N`, the weights that sample
// where they are behind, the oldest first; and of PPO `value.weight`, `value.bias` and their
// moments. Counters: step, updates (steps whose gradient was applied), epoch and index in the
// problems.
#pragma once

#include <string>
#include <vector>

#include "kcc/lab/model_config.h"
#include "kcc/rltrain/rl_options.h"
#include "kcc/rltrain/task.h"
#include "kcc/rltrain/value_head.h"
#include "kcc/train/adamw.h"
#include "kcc/train/examples.h"
#include "kcc/train/state_file.h"

namespace kcc {

struct RlState {
  ModelWeights weights;
  AdamWMoments moments;
  std::vector<ModelWeights> older;  // as many as `stale`, the oldest first
  ValueHead value;                  // of PPO
  int64_t step = 0;
  int64_t updates = 0;
  DataPosition position;
};

// What a run starts with.
RlState StartState(const ModelConfig& config, const ModelWeights& weights,
                   const RlTrainOptions& options);

// What decides the bits of a run besides its state. `contract`: its digest; empty: none.
RunSettings SettingsOf(const RlTrainOptions& options, const RlTask& task,
                       const std::string& start_digest, const std::string& contract);

Result<> WriteRlState(const std::string& path, const ModelConfig& config,
                      const RunSettings& settings, const RlState& state);
// `state` is a StartState of the same run, and is filled. Fails as ReadState does.
Result<> ReadRlState(const std::string& path, const ModelConfig& config,
                     const RunSettings& settings, RlState* state);

}  // namespace kcc
