#include "kcc/train/state_file.h"

#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/format/mapped_file.h"
#include "kcc/format/safetensors.h"
#include "kcc/lab/lab_kernel.h"

namespace kcc {
namespace {

constexpr std::string_view kVersion = "1";
constexpr std::string_view kKind = "kccTrain";

std::string_view Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::optional<int64_t> NumberOf(const SafetensorsHeader& header, const std::string& key) {
  const auto at = header.metadata.find(key);
  if (at == header.metadata.end()) return std::nullopt;
  int64_t value = 0;
  const std::string& text = at->second;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

Result<SafetensorsHeader> ReadHeader(const MappedFile& file, const std::string& path) {
  KCC_TRY(const std::string first,
          file.Read(0, std::min<size_t>(8, static_cast<size_t>(file.size()))));
  KCC_TRY(const int64_t size, SafetensorsHeaderSize(first, file.size(), path));
  KCC_TRY(const std::string json, file.Read(8, static_cast<size_t>(size)));
  return ParseSafetensorsHeader(json, file.size(), path);
}

Result<> CheckSettings(const SafetensorsHeader& header, const RunSettings& settings,
                       const std::string& path) {
  for (const auto& [name, value] : settings) {
    const auto at = header.metadata.find(name);
    const std::string before = at == header.metadata.end() ? "nothing" : at->second;
    if (before != value) {
      return InvalidError(
          "the run was started with " + name + " " + before + ", and would go on with " + value +
              "; give it the same, or start a new run from its weights in another folder",
          Place{path});
    }
  }
  return {};
}

}  // namespace

std::string SettingText(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

void AddKernelSettings(const std::string& prefix, const LabSwitches& kernel, bool generates,
                       RunSettings* settings) {
  for (const auto& [name, value] : SwitchTexts(kernel)) {
    if (name == "path") continue;
    const SwitchInfo& info = *FindSwitch(name);
    // chunk and concurrency shape rollouts; a training step is always one step of the engine.
    const bool counts = generates || info.bits != SwitchBits::kDynamicBatch;
    if (counts && CanChangeBits(info, kernel)) (*settings)[prefix + name] = value;
  }
}

void AddOptimizerSettings(const AdamWOptions& adamw, const RateSchedule& schedule, double clip,
                          RunSettings* settings) {
  RunSettings& made = *settings;
  made["beta1"] = SettingText(adamw.beta1);
  made["beta2"] = SettingText(adamw.beta2);
  made["epsilon"] = SettingText(adamw.epsilon);
  made["decay"] = SettingText(adamw.decay);
  made["schedule"] = std::string(Name(schedule.kind));
  made["rate"] = SettingText(schedule.rate);
  made["floor"] = SettingText(schedule.floor);
  made["warmup"] = std::to_string(schedule.warmup);
  made["steps"] = std::to_string(schedule.steps);
  made["clip"] = SettingText(clip);
}

std::vector<ModelTensor> TensorsOfOptimizer(const ModelConfig& config, ModelWeights* weights,
                                            AdamWMoments* moments) {
  std::vector<ModelTensor> tensors;
  for (const auto& [prefix, values] : {std::pair<std::string, ModelWeights*>{"weights.", weights},
                                       {"first.", &moments->first},
                                       {"second.", &moments->second}}) {
    for (ModelTensor& tensor : TensorsOf(config, values)) {
      tensor.name = prefix + tensor.name;
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

RunSettings SettingsOf(const TrainOptions& options, const ExampleSet& examples,
                       const std::string& start_digest) {
  RunSettings settings;
  settings["model"] = start_digest;
  settings["examples"] = examples.digest;
  AddKernelSettings("kernel ", options.kernel, false, &settings);
  AddOptimizerSettings(options.adamw, options.schedule, options.clip, &settings);
  settings["prompt weight"] = SettingText(options.prompt_weight);
  settings["batch tokens"] = std::to_string(options.batch_tokens);
  settings["pack tokens"] = std::to_string(options.pack_tokens);
  settings["seed"] = std::to_string(options.seed);
  return settings;
}

Result<> WriteStateFile(const std::string& path, std::string_view kind, const RunSettings& settings,
                        const RunCounters& counters, std::span<const ModelTensor> tensors) {
  std::vector<TensorInfo> infos;
  Sha256 hash;
  for (const ModelTensor& tensor : tensors) {
    infos.push_back({tensor.name, DType::kF32, tensor.shape, 0, 0});
    hash.Update(Bytes(*tensor.values));
  }
  std::map<std::string, std::string> metadata = settings;
  metadata[std::string(kind)] = kVersion;
  for (const auto& [name, value] : counters) metadata[name] = std::to_string(value);
  metadata["digest"] = hash.Finish();
  const std::string prefix = SafetensorsPrefix(infos, metadata);
  return WriteFileInPieces(path, [&](const WritePiece& write) -> Result<> {
    KCC_TRY_VOID(write(prefix));
    for (const ModelTensor& tensor : tensors) KCC_TRY_VOID(write(Bytes(*tensor.values)));
    return {};
  });
}

Result<> ReadStateFile(const std::string& path, std::string_view kind, const RunSettings& settings,
                       RunCounters* counters, std::span<const ModelTensor> tensors) {
  KCC_TRY(const MappedFile file, MappedFile::Open(path));
  KCC_TRY(const SafetensorsHeader header, ReadHeader(file, path));
  const auto version = header.metadata.find(std::string(kind));
  if (version == header.metadata.end() || version->second != kVersion) {
    return InvalidError("this is no state of a training run that this version of kcc reads",
                        Place{path});
  }
  KCC_TRY_VOID(CheckSettings(header, settings, path));
  for (auto& [name, value] : *counters) {
    const auto number = NumberOf(header, name);
    if (!number)
      return BrokenEvidenceError("the state does not say where the run stands", Place{path});
    value = *number;
  }
  Sha256 hash;
  for (const ModelTensor& tensor : tensors) {
    const TensorInfo* info = header.Find(tensor.name);
    if (info == nullptr || info->dtype != DType::kF32 || info->shape != tensor.shape) {
      return BrokenEvidenceError("tensor '" + tensor.name + "' is missing or of another shape",
                                 Place{path});
    }
    tensor.values->resize(tensor.elements());
    const size_t bytes = tensor.elements() * sizeof(float);
    for (size_t at = 0; at < bytes; at += kWindowBytesMax) {
      const size_t size = std::min(kWindowBytesMax, bytes - at);
      KCC_TRY(const FileWindow window, file.Map(info->begin + static_cast<int64_t>(at), size));
      std::memcpy(reinterpret_cast<char*>(tensor.values->data()) + at, window.data(), size);
    }
    hash.Update(Bytes(*tensor.values));
  }
  const auto digest = header.metadata.find("digest");
  if (digest == header.metadata.end() || digest->second != hash.Finish()) {
    return BrokenEvidenceError(
        "the state is damaged: its bytes do not have the digest that it names", Place{path});
  }
  return {};
}

Result<> WriteState(const std::string& path, const ModelConfig& config, const RunSettings& settings,
                    const TrainState& state) {
  auto& read = const_cast<TrainState&>(state);  // read through, never written
  const RunCounters counters = {
      {"step", state.step}, {"epoch", state.position.epoch}, {"index", state.position.index}};
  return WriteStateFile(path, kKind, settings, counters,
                        TensorsOfOptimizer(config, &read.weights, &read.moments));
}

Result<TrainState> ReadState(const std::string& path, const ModelConfig& config,
                             const RunSettings& settings) {
  TrainState state;
  RunCounters counters = {{"step", 0}, {"epoch", 0}, {"index", 0}};
  KCC_TRY_VOID(ReadStateFile(path, kKind, settings, &counters,
                             TensorsOfOptimizer(config, &state.weights, &state.moments)));
  state.step = counters["step"];
  state.position = {counters["epoch"], counters["index"]};
  if (config.tied) state.weights.lm_head = state.weights.embedding;
  return state;
}

}  // namespace kcc
