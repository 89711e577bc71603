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

std::string_view Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// All tensors of the state under the names of the file. Read through, never written, where the
// state is const.
std::vector<ModelTensor> TensorsOfState(const ModelConfig& config, TrainState* state) {
  std::vector<ModelTensor> tensors;
  for (const auto& [prefix, weights] :
       {std::pair<std::string, ModelWeights*>{"weights.", &state->weights},
        {"first.", &state->moments.first},
        {"second.", &state->moments.second}}) {
    for (ModelTensor& tensor : TensorsOf(config, weights)) {
      tensor.name = prefix + tensor.name;
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

// The shortest text that reads back as the same number.
std::string Text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
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

RunSettings SettingsOf(const TrainOptions& options, const ExampleSet& examples,
                       const std::string& start_digest) {
  RunSettings settings;
  settings["model"] = start_digest;
  settings["examples"] = examples.digest;
  for (const auto& [name, value] : SwitchTexts(options.kernel)) {
    // chunk and concurrency shape rollouts; a training step is always one step of the engine.
    const SwitchInfo& info = *FindSwitch(name);
    if (info.bits != SwitchBits::kDynamicBatch && CanChangeBits(info, options.kernel) &&
        name != "path") {
      settings["kernel " + name] = value;
    }
  }
  settings["beta1"] = Text(options.adamw.beta1);
  settings["beta2"] = Text(options.adamw.beta2);
  settings["epsilon"] = Text(options.adamw.epsilon);
  settings["decay"] = Text(options.adamw.decay);
  settings["schedule"] = std::string(Name(options.schedule.kind));
  settings["rate"] = Text(options.schedule.rate);
  settings["floor"] = Text(options.schedule.floor);
  settings["warmup"] = std::to_string(options.schedule.warmup);
  settings["steps"] = std::to_string(options.schedule.steps);
  settings["clip"] = Text(options.clip);
  settings["prompt weight"] = Text(options.prompt_weight);
  settings["batch tokens"] = std::to_string(options.batch_tokens);
  settings["pack tokens"] = std::to_string(options.pack_tokens);
  settings["seed"] = std::to_string(options.seed);
  return settings;
}

Result<> WriteState(const std::string& path, const ModelConfig& config, const RunSettings& settings,
                    const TrainState& state) {
  const std::vector<ModelTensor> tensors = TensorsOfState(config, const_cast<TrainState*>(&state));
  std::vector<TensorInfo> infos;
  Sha256 hash;
  for (const ModelTensor& tensor : tensors) {
    infos.push_back({tensor.name, DType::kF32, tensor.shape, 0, 0});
    hash.Update(Bytes(*tensor.values));
  }
  std::map<std::string, std::string> metadata = settings;
  metadata["kccTrain"] = kVersion;
  metadata["step"] = std::to_string(state.step);
  metadata["epoch"] = std::to_string(state.position.epoch);
  metadata["index"] = std::to_string(state.position.index);
  metadata["digest"] = hash.Finish();
  const std::string prefix = SafetensorsPrefix(infos, metadata);
  return WriteFileInPieces(path, [&](const WritePiece& write) -> Result<> {
    KCC_TRY_VOID(write(prefix));
    for (const ModelTensor& tensor : tensors) KCC_TRY_VOID(write(Bytes(*tensor.values)));
    return {};
  });
}

Result<TrainState> ReadState(const std::string& path, const ModelConfig& config,
                             const RunSettings& settings) {
  KCC_TRY(const MappedFile file, MappedFile::Open(path));
  KCC_TRY(const SafetensorsHeader header, ReadHeader(file, path));
  const auto version = header.metadata.find("kccTrain");
  if (version == header.metadata.end() || version->second != kVersion) {
    return InvalidError("this is no state of a training run that this version of kcc reads",
                        Place{path});
  }
  KCC_TRY_VOID(CheckSettings(header, settings, path));
  const auto step = NumberOf(header, "step");
  const auto epoch = NumberOf(header, "epoch");
  const auto index = NumberOf(header, "index");
  if (!step || !epoch || !index)
    return BrokenEvidenceError("the state does not say where the run stands", Place{path});
  TrainState state;
  state.step = *step;
  state.position = {*epoch, *index};
  Sha256 hash;
  for (const ModelTensor& tensor : TensorsOfState(config, &state)) {
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
  if (config.tied) state.weights.lm_head = state.weights.embedding;
  return state;
}

}  // namespace kcc
