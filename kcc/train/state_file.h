// The state of a training run as a safetensors file: weights, moments, step, place in the data, and
// what the run was started with.
//
// Tensors: `weights.N`, `first.N` and `second.N` in F32 for every tensor N of the model. Metadata:
// `kccTrain` (1), `step`, `epoch`, `index`, `digest` (SHA-256 of the tensors' bytes) and a key for
// each setting that decides a bit of the run. A file is written whole or not at all: a temporary is
// synced and takes the name in one step. There is no other randomness than the order of the
// examples, which follows from the seed among the settings.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/lab/switches.h"
#include "kcc/train/trainer.h"

namespace kcc {

// What decides a run's bits besides its state, by name, as text.
using RunSettings = std::map<std::string, std::string>;
// The shortest text that reads back as the same number.
std::string SettingText(double value);
// Of a kernel that computes whole sequences: the switches that can change a bit of it, each after
// `prefix`. `generates`: it generates too, and the shape of a step counts where it decides bits.
void AddKernelSettings(const std::string& prefix, const LabSwitches& kernel, bool generates,
                       RunSettings* settings);
void AddOptimizerSettings(const AdamWOptions& adamw, const RateSchedule& schedule, double clip,
                          RunSettings* settings);

// A state of any kind of run: its tensors, its settings, and counters that say where it stands.
using RunCounters = std::map<std::string, int64_t>;
Result<> WriteStateFile(const std::string& path, std::string_view kind, const RunSettings& settings,
                        const RunCounters& counters, std::span<const ModelTensor> tensors);
// Fills the tensors, and the counters that are named. Fails as ReadState does.
Result<> ReadStateFile(const std::string& path, std::string_view kind, const RunSettings& settings,
                       RunCounters* counters, std::span<const ModelTensor> tensors);
// Under the names of a file: "weights.", "first." and "second." before those of the model.
std::vector<ModelTensor> TensorsOfOptimizer(const ModelConfig& config, ModelWeights* weights,
                                            AdamWMoments* moments);

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
