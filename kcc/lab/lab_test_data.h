// Random checkpoints and requests for the lab's tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kcc/format/safetensors.h"
#include "kcc/kernel/kernel.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/lab_kernel.h"

namespace kcc::testing {

inline ModelConfig SmallConfig() {
  ModelConfig config;
  config.hidden = 64;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.ffn = 96;
  config.vocab = 50;
  config.positions = 512;
  return config;
}

inline std::vector<float> RandomWeights(std::mt19937_64* bits, size_t count, double scale,
                                        double around = 0) {
  std::vector<float> values(count);
  for (float& value : values) {
    double sum = -6;  // normal enough, and the same from every library
    for (int i = 0; i < 12; ++i) sum += static_cast<double>((*bits)() >> 11) * 0x1p-53;
    value = static_cast<float>(around + scale * sum);
  }
  return values;
}

inline Checkpoint RandomCheckpoint(const ModelConfig& config, uint64_t seed = 1) {
  std::mt19937_64 bits(seed);
  Checkpoint made;
  made.config = config;
  for (const ModelTensor& tensor : TensorsOf(config, &made)) {
    const bool gain = tensor.shape.size() == 1 && !tensor.name.ends_with(".bias");
    const bool embedding = tensor.values == &made.embedding;
    const double inputs = static_cast<double>(tensor.shape.back());
    const double scale = gain || tensor.shape.size() == 1 ? 0.1
                         : embedding                      ? 1.0
                                                          : 1.0 / std::sqrt(inputs);
    *tensor.values = RandomWeights(&bits, tensor.elements(), scale, gain ? 1.0 : 0.0);
  }
  if (config.tied) made.lm_head = made.embedding;
  made.digest = "sha256:" + std::string(64, 'a');
  return made;
}

inline std::vector<KernelRequest> RandomRequests(size_t count, size_t tokens_max, uint64_t seed,
                                                 size_t vocab = 50) {
  std::mt19937_64 bits(seed);
  std::vector<KernelRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    KernelRequest request;
    request.request.id = "r" + std::to_string(i);
    const size_t length = 2 + bits() % (tokens_max - 1);
    for (size_t t = 0; t < length; ++t) {
      request.tokens.push_back(static_cast<int32_t>(bits() % vocab));
    }
    request.prompt_tokens = static_cast<int32_t>(1 + bits() % (length - 1));
    requests.push_back(std::move(request));
  }
  return requests;
}

using LogitRows = std::map<std::pair<std::string, size_t>, std::vector<float>>;

// Scores in process; rows by request id and position.
inline LogitRows ScoreRows(LabKernel* kernel, const std::vector<KernelRequest>& requests,
                           std::vector<RequestOutcome>* outcomes = nullptr) {
  LogitRows rows;
  auto done = kernel->engine().Score(
      requests, [&](size_t r, size_t position, int32_t, std::span<const float> logits) {
        const auto [at, fresh] =
            rows.try_emplace({requests[r].request.id, position}, logits.begin(), logits.end());
        EXPECT_TRUE(fresh) << "position " << position << " was handed out twice";
        return Result<>();
      });
  EXPECT_TRUE(done.has_value()) << done.error().Format();
  if (done.has_value() && outcomes != nullptr) *outcomes = std::move(*done);
  return rows;
}

inline LabSwitches Switches(std::string_view kernel, const NamedValues& options = {}) {
  auto switches = ResolveSwitches(kernel, options);
  EXPECT_TRUE(switches.has_value()) << switches.error().Format();
  return *switches;
}

inline std::unique_ptr<LabKernel> MustMake(const Checkpoint& checkpoint,
                                           const LabSwitches& switches) {
  auto kernel = LabKernel::Make(checkpoint, switches);
  EXPECT_TRUE(kernel.has_value()) << kernel.error().Format();
  return std::move(*kernel);
}

inline LogitRows RowsOf(const Checkpoint& checkpoint, const LabSwitches& switches,
                        const std::vector<KernelRequest>& requests) {
  const auto kernel = MustMake(checkpoint, switches);
  return ScoreRows(kernel.get(), requests);
}

inline double LargestGap(const LogitRows& a, const LogitRows& b) {
  double gap = 0;
  EXPECT_EQ(a.size(), b.size());
  for (const auto& [place, row] : a) {
    const auto& other = b.at(place);
    for (size_t v = 0; v < row.size(); ++v) {
      gap = std::max(gap, std::fabs(static_cast<double>(row[v]) - other[v]));
    }
  }
  return gap;
}

// A checkpoint on disk, in F32, with the tensors named as Hugging Face does.
struct CheckpointFiles {
  std::string config;
  std::vector<TensorInfo> tensors;
  std::vector<const std::vector<float>*> values;
};

// The files point into the checkpoint.
inline CheckpointFiles FilesOf(const Checkpoint& c) {
  CheckpointFiles files;
  const ModelConfig& m = c.config;
  files.config = "{\"model_type\":\"" + std::string(Name(m.family)) +
                 "\",\"hidden_size\":" + std::to_string(m.hidden) +
                 ",\"num_hidden_layers\":" + std::to_string(m.layers) +
                 ",\"num_attention_heads\":" + std::to_string(m.heads) +
                 ",\"num_key_value_heads\":" + std::to_string(m.kv_heads) +
                 ",\"head_dim\":" + std::to_string(m.head_dim) +
                 ",\"intermediate_size\":" + std::to_string(m.ffn) +
                 ",\"vocab_size\":" + std::to_string(m.vocab) +
                 ",\"max_position_embeddings\":" + std::to_string(m.positions) + "}";
  for (const ModelTensor& tensor : TensorsOf(m, const_cast<Checkpoint*>(&c))) {
    TensorInfo info;
    info.name = tensor.name;
    info.shape = tensor.shape;
    files.tensors.push_back(std::move(info));
    files.values.push_back(tensor.values);
  }
  return files;
}

inline void WriteFiles(CheckpointFiles files, const std::string& directory) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/config.json") << files.config;
  std::ofstream out(directory + "/model.safetensors", std::ios::binary);
  out << SafetensorsPrefix(files.tensors, {});
  for (const std::vector<float>* values : files.values) {
    out.write(reinterpret_cast<const char*>(values->data()),
              static_cast<std::streamsize>(values->size() * sizeof(float)));
  }
}

}  // namespace kcc::testing
