#include "kcc/lab/model_config.h"

#include <array>
#include <optional>

#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr int64_t kSizeMax = 1 << 24;
constexpr std::array kFamilies = {ModelFamily::kLlama, ModelFamily::kQwen2, ModelFamily::kQwen3};

// Reads members of config.json and keeps the first thing that is wrong.
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
  double Number(std::string_view key, std::optional<double> otherwise) {
    return NumberIn(object_, key, otherwise);
  }
  bool Flag(std::string_view key) {
    const auto member = JsonMember(object_, key);
    bool value = false;
    if (member && member->get(value) != simdjson::SUCCESS) {
      Fail(std::string(key) + " must be true or false");
    }
    return value;
  }
  std::string Text(std::string_view key) const {
    return std::string(JsonText(JsonMember(object_, key)));
  }
  // RoPE's base and its scaling: at the top and in rope_scaling (transformers 4), or both in
  // rope_parameters (5).
  void Rope(ModelConfig* config) {
    json::object inner;
    const auto parameters = JsonMember(object_, "rope_parameters");
    const auto scaling = JsonMember(object_, "rope_scaling");
    config->rope_theta = Number("rope_theta", 10000);
    if (parameters && parameters->get(inner) == simdjson::SUCCESS) {
      config->rope_theta = NumberIn(inner, "rope_theta", config->rope_theta);
      config->rope_scaling = Scaling(inner, config->positions);
    } else if (scaling && scaling->get(inner) == simdjson::SUCCESS) {
      config->rope_scaling = Scaling(inner, config->positions);
    } else if (parameters || scaling) {
      Fail("rope_scaling must be an object");
    }
  }
  // Every layer attends to all positions before it.
  void FullAttention() {
    Require(!Flag("use_sliding_window"), "use_sliding_window: the lab attends to all positions");
    for (const json::element& type :
         JsonList(JsonMember(object_, "layer_types")).value_or(Empty())) {
      const std::string_view name = JsonText(type);
      Require(name == "full_attention",
              "layer_types holds '" + std::string(name) + "'; the lab computes full_attention");
    }
  }
  void Require(bool holds, std::string what) {
    if (!holds) Fail(std::move(what));
  }
  Result<> problem() const {
    if (problem_.empty()) return {};
    return InvalidError(problem_, Place{file_});
  }

 private:
  using Empty = std::vector<json::element>;

  double NumberIn(json::object object, std::string_view key, std::optional<double> otherwise) {
    const auto member = JsonMember(object, key);
    if (!member && otherwise) return *otherwise;
    const auto value = member ? JsonNumber(*member) : std::nullopt;
    if (!value || !(*value > 0)) Fail(std::string(key) + " must be a positive number");
    return value.value_or(otherwise.value_or(1));
  }

  RopeScaling Scaling(json::object object, size_t positions) {
    RopeScaling made;
    std::string type(JsonText(JsonMember(object, "rope_type")));
    if (type.empty()) type = JsonText(JsonMember(object, "type"));
    if (type.empty() || type == "default") return made;
    if (type != "linear" && type != "llama3") {
      Fail("rope_type '" + type +
           "' is not supported by the lab; it computes default, linear and llama3");
      return made;
    }
    made.factor = NumberIn(object, "factor", {});
    made.kind = RopeScaling::Kind::kLinear;
    if (type == "linear") return made;
    made.kind = RopeScaling::Kind::kLlama3;
    made.low = NumberIn(object, "low_freq_factor", {});
    made.high = NumberIn(object, "high_freq_factor", {});
    made.original_positions =
        NumberIn(object, "original_max_position_embeddings", static_cast<double>(positions));
    Require(made.low < made.high, "low_freq_factor must be below high_freq_factor");
    return made;
  }

  void Fail(std::string what) {
    if (problem_.empty()) problem_ = std::move(what);
  }
  json::object object_;
  std::string file_;
  std::string problem_;
};

// What a family is, and what its config decides.
void ReadFamily(ConfigReader* reader, ModelConfig* config) {
  const std::string type = reader->Text("model_type");
  const bool attention_bias = reader->Flag("attention_bias");
  for (const ModelFamily family : kFamilies) {
    if (type == Name(family)) config->family = family;
  }
  reader->Require(type.empty() || type == Name(config->family),
                  "model_type is '" + type + "'; the lab computes llama, qwen2 and qwen3");
  config->qkv_bias = config->family == ModelFamily::kQwen2 || attention_bias;
  config->output_bias = config->family != ModelFamily::kQwen2 && attention_bias;
  config->qk_norm = config->family == ModelFamily::kQwen3;
}

}  // namespace

std::string_view Name(ModelFamily family) {
  constexpr std::array<std::string_view, 3> kNames = {"llama", "qwen2", "qwen3"};
  return kNames[static_cast<size_t>(family)];
}

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
  config.rms_eps = reader.Number("rms_norm_eps", 1e-6);
  config.initializer_range = reader.Number("initializer_range", 0.02);
  config.tied = reader.Flag("tie_word_embeddings");
  reader.Rope(&config);
  reader.FullAttention();
  ReadFamily(&reader, &config);
  const std::string activation = reader.Text("hidden_act");
  reader.Require(activation.empty() || activation == "silu",
                 "hidden_act is '" + activation + "'; the lab computes silu");
  reader.Require(!reader.Flag("mlp_bias"), "mlp_bias: the lab computes no biases of the MLP");
  reader.Require(config.heads % config.kv_heads == 0,
                 "num_attention_heads must be a multiple of num_key_value_heads");
  reader.Require(config.head_dim % 16 == 0, "head_dim must be a multiple of 16 for the lab");
  reader.Require(config.hidden % 32 == 0 && config.ffn % 32 == 0 && config.queries() % 32 == 0,
                 "hidden_size, intermediate_size and heads * head_dim must be multiples of 32");
  KCC_TRY_VOID(reader.problem());
  return config;
}

size_t ModelTensor::elements() const {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return count;
}

std::vector<ModelTensor> TensorsOf(const ModelConfig& config, ModelWeights* weights) {
  std::vector<ModelTensor> tensors;
  const auto hidden = static_cast<int64_t>(config.hidden);
  const auto queries = static_cast<int64_t>(config.queries());
  const auto keys = static_cast<int64_t>(config.keys());
  const auto ffn = static_cast<int64_t>(config.ffn);
  const auto vocab = static_cast<int64_t>(config.vocab);
  const auto head = static_cast<int64_t>(config.head_dim);
  std::string at = "model.";
  const auto add = [&](std::string_view name, std::vector<int64_t> shape, std::vector<float>* to) {
    tensors.push_back({at + std::string(name), std::move(shape), to});
  };
  add("embed_tokens.weight", {vocab, hidden}, &weights->embedding);
  weights->layers.resize(config.layers);
  for (size_t layer = 0; layer < config.layers; ++layer) {
    LayerWeights& w = weights->layers[layer];
    at = "model.layers." + std::to_string(layer) + ".";
    add("input_layernorm.weight", {hidden}, &w.attention_gain);
    add("post_attention_layernorm.weight", {hidden}, &w.mlp_gain);
    add("self_attn.q_proj.weight", {queries, hidden}, &w.query);
    add("self_attn.k_proj.weight", {keys, hidden}, &w.key);
    add("self_attn.v_proj.weight", {keys, hidden}, &w.value);
    add("self_attn.o_proj.weight", {hidden, queries}, &w.output);
    add("mlp.gate_proj.weight", {ffn, hidden}, &w.gate);
    add("mlp.up_proj.weight", {ffn, hidden}, &w.up);
    add("mlp.down_proj.weight", {hidden, ffn}, &w.down);
    if (config.qkv_bias) {
      add("self_attn.q_proj.bias", {queries}, &w.query_bias);
      add("self_attn.k_proj.bias", {keys}, &w.key_bias);
      add("self_attn.v_proj.bias", {keys}, &w.value_bias);
    }
    if (config.output_bias) add("self_attn.o_proj.bias", {hidden}, &w.output_bias);
    if (config.qk_norm) {
      add("self_attn.q_norm.weight", {head}, &w.query_gain);
      add("self_attn.k_norm.weight", {head}, &w.key_gain);
    }
  }
  at = "model.";
  add("norm.weight", {hidden}, &weights->final_gain);
  at = "";
  if (!config.tied) add("lm_head.weight", {vocab, hidden}, &weights->lm_head);
  return tensors;
}

ModelWeights ZeroWeights(const ModelConfig& config) {
  ModelWeights made;
  for (const ModelTensor& tensor : TensorsOf(config, &made)) {
    tensor.values->assign(tensor.elements(), 0.0f);
  }
  if (config.tied) made.lm_head.assign(config.vocab * config.hidden, 0.0f);
  return made;
}

}  // namespace kcc
