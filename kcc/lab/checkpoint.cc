#include "kcc/lab/checkpoint.h"

#include <cmath>

#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/format/json.h"
#include "kcc/format/mapped_file.h"
#include "kcc/format/safetensors.h"
#include "kcc/numeric/widen.h"

namespace kcc {
namespace {

constexpr size_t kConfigBytesMax = size_t{1} << 20;
constexpr int64_t kModelBytesMax = int64_t{4} << 30;  // the lab is for small models
constexpr int64_t kSizeMax = 1 << 24;

// Reads config.json's members and keeps the first thing that is wrong.
class ConfigReader {
 public:
  ConfigReader(json::object object, std::string file) : object_(object), file_(std::move(file)) {}

  size_t Size(std::string_view key, std::optional<size_t> otherwise = {}) {
    const auto member = JsonMember(object_, key);
    if (!member && otherwise) return *otherwise;
    const auto value = member ? JsonInteger(*member) : std::nullopt;
    if (!value || *value < 1 || *value > kSizeMax) {
      Fail(std::string(key) + " must be a whole number from 1 to " + std::to_string(kSizeMax));
      return 1;
    }
    return static_cast<size_t>(*value);
  }
  double Number(std::string_view key, double otherwise) {
    const auto member = JsonMember(object_, key);
    if (!member) return otherwise;
    const auto value = JsonNumber(*member);
    if (!value || !(*value > 0)) Fail(std::string(key) + " must be a positive number");
    return value.value_or(otherwise);
  }
  bool Flag(std::string_view key) {
    const auto member = JsonMember(object_, key);
    bool value = false;
    if (member && member->get(value) != simdjson::SUCCESS) {
      Fail(std::string(key) + " must be true or false");
    }
    return value;
  }
  // RoPE's base stands at the top (transformers 4) or in rope_parameters (5).
  double RopeTheta() {
    const auto parameters = JsonMember(object_, "rope_parameters");
    json::object inner;
    if (parameters && parameters->get(inner) == simdjson::SUCCESS) {
      const std::string_view type = JsonText(JsonMember(inner, "rope_type"));
      if (!type.empty() && type != "default")
        Fail("rope_type '" + std::string(type) + "' is not supported by the lab");
      if (const auto theta = JsonMember(inner, "rope_theta")) {
        return JsonNumber(*theta).value_or(10000);
      }
    }
    if (JsonMember(object_, "rope_scaling")) Fail("rope_scaling is not supported by the lab");
    return Number("rope_theta", 10000);
  }
  void Require(bool holds, std::string what) {
    if (!holds) Fail(std::move(what));
  }
  Result<> problem() const {
    if (problem_.empty()) return {};
    return InvalidError(problem_, Place{file_});
  }
  json::object object() const { return object_; }

 private:
  void Fail(std::string what) {
    if (problem_.empty()) problem_ = std::move(what);
  }
  json::object object_;
  std::string file_;
  std::string problem_;
};

// model.safetensors, opened, with the digest of all its bytes fed to `hash`.
class TensorFile {
 public:
  static Result<TensorFile> Open(const std::string& path, Sha256* hash) {
    KCC_TRY(MappedFile file, MappedFile::Open(path));
    if (file.size() > kModelBytesMax) {
      return InvalidError("a checkpoint of more than 4 GiB is not for the lab", Place{path});
    }
    KCC_TRY(const std::string first,
            file.Read(0, std::min<size_t>(8, static_cast<size_t>(file.size()))));
    KCC_TRY(const int64_t header_size, SafetensorsHeaderSize(first, file.size(), path));
    KCC_TRY(const std::string json, file.Read(8, static_cast<size_t>(header_size)));
    KCC_TRY(SafetensorsHeader header, ParseSafetensorsHeader(json, file.size(), path));
    for (int64_t at = 0; at < file.size(); at += static_cast<int64_t>(kWindowBytesMax)) {
      const auto size = std::min<int64_t>(static_cast<int64_t>(kWindowBytesMax), file.size() - at);
      KCC_TRY(const FileWindow window, file.Map(at, static_cast<size_t>(size)));
      hash->Update({reinterpret_cast<const char*>(window.data()), window.size()});
    }
    return TensorFile(std::move(file), std::move(header));
  }

  bool Has(std::string_view name) const { return header_.Find(name) != nullptr; }

  Result<std::vector<float>> Read(const std::string& name, std::vector<int64_t> shape) const {
    const Place place{file_.path()};
    const TensorInfo* info = header_.Find(name);
    if (info == nullptr) return InvalidError("tensor '" + name + "' is missing", place);
    TensorInfo wanted;
    wanted.shape = std::move(shape);
    if (info->shape != wanted.shape) {
      return InvalidError("tensor '" + name + "' has shape " + info->ShapeText() +
                              ", but config.json asks for " + wanted.ShapeText(),
                          place);
    }
    if (info->dtype != DType::kF32 && info->dtype != DType::kBF16 && info->dtype != DType::kF16) {
      return InvalidError("tensor '" + name + "' is " + std::string(DTypeName(info->dtype)) +
                              "; the lab reads F32, BF16 and F16",
                          place);
    }
    std::vector<float> values(static_cast<size_t>(info->elements()));
    const size_t element = DTypeBits(info->dtype) / 8;
    const size_t step = kWindowBytesMax / element;
    for (size_t i = 0; i < values.size(); i += step) {
      const size_t count = std::min(step, values.size() - i);
      KCC_TRY(const FileWindow window,
              file_.Map(info->begin + static_cast<int64_t>(i * element), count * element));
      WidenToFloat(window.data(), info->dtype, count, BestTarget(), values.data() + i);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) {
        return BrokenEvidenceError("tensor '" + name +
                                       "' holds a number that is not finite, at element " +
                                       std::to_string(i) + "; the checkpoint is damaged",
                                   place);
      }
    }
    return values;
  }

 private:
  TensorFile(MappedFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  MappedFile file_;
  SafetensorsHeader header_;
};

Result<LayerWeights> ReadLayer(const TensorFile& file, const ModelConfig& config, size_t layer) {
  const std::string at = "model.layers." + std::to_string(layer) + ".";
  const auto hidden = static_cast<int64_t>(config.hidden);
  const auto queries = static_cast<int64_t>(config.queries());
  const auto keys = static_cast<int64_t>(config.keys());
  const auto ffn = static_cast<int64_t>(config.ffn);
  LayerWeights w;
  KCC_TRY(w.attention_gain, file.Read(at + "input_layernorm.weight", {hidden}));
  KCC_TRY(w.mlp_gain, file.Read(at + "post_attention_layernorm.weight", {hidden}));
  KCC_TRY(w.query, file.Read(at + "self_attn.q_proj.weight", {queries, hidden}));
  KCC_TRY(w.key, file.Read(at + "self_attn.k_proj.weight", {keys, hidden}));
  KCC_TRY(w.value, file.Read(at + "self_attn.v_proj.weight", {keys, hidden}));
  KCC_TRY(w.output, file.Read(at + "self_attn.o_proj.weight", {hidden, queries}));
  KCC_TRY(w.gate, file.Read(at + "mlp.gate_proj.weight", {ffn, hidden}));
  KCC_TRY(w.up, file.Read(at + "mlp.up_proj.weight", {ffn, hidden}));
  KCC_TRY(w.down, file.Read(at + "mlp.down_proj.weight", {hidden, ffn}));
  return w;
}

}  // namespace

Result<ModelConfig> ParseModelConfig(std::string_view text, const std::string& file) {
  json::parser parser;
  const Result<json::element> root = ParseJson(parser, text);
  if (!root.has_value()) return Error(root.error()).At(Place{file});
  json::object object;
  if (root->get(object) != simdjson::SUCCESS) {
    return InvalidError("config.json must be an object, not " + std::string(JsonTypeName(*root)),
                        Place{file});
  }
  ConfigReader reader(object, file);
  ModelConfig config;
  config.hidden = reader.Size("hidden_size");
  config.layers = reader.Size("num_hidden_layers");
  config.heads = reader.Size("num_attention_heads");
  config.kv_heads = reader.Size("num_key_value_heads", config.heads);
  config.head_dim = reader.Size("head_dim", std::max<size_t>(1, config.hidden / config.heads));
  config.ffn = reader.Size("intermediate_size");
  config.vocab = reader.Size("vocab_size");
  config.positions = reader.Size("max_position_embeddings", 8192);
  config.rope_theta = reader.RopeTheta();
  config.rms_eps = reader.Number("rms_norm_eps", 1e-6);
  config.tied = reader.Flag("tie_word_embeddings");

  const std::string_view type = JsonText(JsonMember(object, "model_type"));
  const std::string_view activation = JsonText(JsonMember(object, "hidden_act"));
  reader.Require(type.empty() || type == "llama",
                 "model_type is '" + std::string(type) + "'; the lab computes llama");
  reader.Require(activation.empty() || activation == "silu",
                 "hidden_act is '" + std::string(activation) + "'; the lab computes silu");
  reader.Require(!reader.Flag("attention_bias") && !reader.Flag("mlp_bias"),
                 "the lab computes no biases");
  reader.Require(config.heads % config.kv_heads == 0,
                 "num_attention_heads must be a multiple of num_key_value_heads");
  reader.Require(config.head_dim % 16 == 0, "head_dim must be a multiple of 16 for the lab");
  reader.Require(config.hidden % 32 == 0 && config.ffn % 32 == 0 && config.queries() % 32 == 0,
                 "hidden_size, intermediate_size and heads * head_dim must be multiples of 32");
  KCC_TRY_VOID(reader.problem());
  return config;
}

Result<Checkpoint> ReadCheckpoint(const std::string& directory) {
  const std::string config_path = directory + "/config.json";
  KCC_TRY(const std::string text, ReadRegularFile(config_path, kConfigBytesMax));
  Checkpoint checkpoint;
  KCC_TRY(checkpoint.config, ParseModelConfig(text, config_path));
  const ModelConfig& config = checkpoint.config;
  Sha256 hash;
  hash.Update(text);
  KCC_TRY(const TensorFile file, TensorFile::Open(directory + "/model.safetensors", &hash));
  const auto hidden = static_cast<int64_t>(config.hidden);
  const auto vocab = static_cast<int64_t>(config.vocab);
  KCC_TRY(checkpoint.embedding, file.Read("model.embed_tokens.weight", {vocab, hidden}));
  for (size_t layer = 0; layer < config.layers; ++layer) {
    KCC_TRY(LayerWeights weights, ReadLayer(file, config, layer));
    checkpoint.layers.push_back(std::move(weights));
  }
  KCC_TRY(checkpoint.final_gain, file.Read("model.norm.weight", {hidden}));
  if (config.tied && !file.Has("lm_head.weight")) {
    checkpoint.lm_head = checkpoint.embedding;
  } else {
    KCC_TRY(checkpoint.lm_head, file.Read("lm_head.weight", {vocab, hidden}));
  }
  checkpoint.digest = hash.Finish();
  return checkpoint;
}

}  // namespace kcc
