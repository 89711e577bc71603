// The state of a training run as a safetensors file: weights, moments, step, place in the data, and
// what the run was started with.
//
// Tensors: `weights.N`, `first.N` and `second.N` in F32 for every tensor N of the model. Metadata:
// `kccTrain` (1), `step`, `epoch`, `index`, `digest` (SHA-256 of the tensors' bytes) and a key for
// each setting that decides a bit of the run. A file is written whole or not at all: a temporary is
// synced and takes the name in one step. There is no other randomness than the order of the
// examples, which follows from the seed among the settings.
#pragma once

#include <map>
#include <string>

#include "kcc/base/result.h"
#include "kcc/train/trainer.h"

namespace kcc {

// What decides a run's bits besides its state, by name, as text.
using RunSettings = std::map<std::string, std::string>;

// Of the options, the examples and the checkpoint that a run starts from. Switches that never
// change a bit are left out.
RunSettings SettingsOf(const TrainOptions& options, const ExampleSet& examples,
                       const std::string& start_digest);

Result<> WriteState(const std::string& path, const ModelConfig& config, const RunSettings& settings,
                    const TrainState& state);
// Fails, naming what is wrong, on a file that is damaged, of another model, or of a run with other
// settings.
Result<TrainState> ReadState(const std::string& path, const ModelConfig& config,
                             const RunSettings& settings);

}  // namespace kcc
