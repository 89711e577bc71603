#include "kcc/lab/checkpoint.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "kcc/lab/lab_test_data.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using testing::CheckpointFiles;
using testing::FilesOf;
using testing::RandomCheckpoint;
using testing::ScratchDir;
using testing::SmallConfig;
using testing::WriteFiles;

TEST(Checkpoint, ReadsWhatWasWritten) {
  const ScratchDir scratch;
  const Checkpoint made = RandomCheckpoint(SmallConfig());
  WriteFiles(FilesOf(made), scratch / "m");
  const auto read = ReadCheckpoint(scratch / "m");
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(read->embedding, made.embedding);
  EXPECT_EQ(read->layers[1].down, made.layers[1].down);
  EXPECT_EQ(read->lm_head, made.lm_head);
  EXPECT_EQ(read->config.ffn, 96u);
  EXPECT_TRUE(read->digest.starts_with("sha256:"));
}

TEST(Checkpoint, RefusesDamageNamingWhatIsWrong) {
  const Checkpoint made = RandomCheckpoint(SmallConfig());
  std::vector<float> broken = made.final_gain;
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> short_gain(32, 1.0f);
  struct Case {
    const char* name;
    std::function<void(CheckpointFiles*)> damage;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"a missing tensor",
       [](CheckpointFiles* f) {
         f->tensors.erase(f->tensors.begin() + 3);
         f->values.erase(f->values.begin() + 3);
       },
       "tensor 'model.layers.0.self_attn.q_proj.weight' is missing"},
      {"a wrong shape",
       [&](CheckpointFiles* f) {
         f->tensors[1].shape = {32};
         f->values[1] = &short_gain;
       },
       "has shape [32], but config.json asks for [64]"},
      {"a number that is not finite",
       [&](CheckpointFiles* f) { f->values[f->values.size() - 2] = &broken; },
       "not finite, at element 3"},
      {"another architecture",
       [](CheckpointFiles* f) { f->config.replace(f->config.find("llama"), 5, "gemma"); },
       "the lab computes llama"},
      {"heads that do not divide",
       [](CheckpointFiles* f) { f->config.replace(f->config.find("_heads\":4"), 9, "_heads\":3"); },
       "must be a multiple of num_key_value_heads"},
      {"a size that is no number",
       [](CheckpointFiles* f) { f->config.replace(f->config.find(":96"), 3, ":{}"); },
       "intermediate_size must be a whole number"},
      {"no JSON", [](CheckpointFiles* f) { f->config = "{"; }, "config.json"},
  };
  for (const Case& c : cases) {
    const ScratchDir scratch;
    CheckpointFiles files = FilesOf(made);
    c.damage(&files);
    WriteFiles(files, scratch / "m");
    const auto read = ReadCheckpoint(scratch / "m");
    ASSERT_FALSE(read.has_value()) << c.name;
    EXPECT_NE(read.error().Format().find(c.message), std::string::npos)
        << c.name << ": " << read.error().Format();
  }
}

std::string ConfigWith(const std::string& type, const std::string& more) {
  return R"({"model_type":")" + type +
         R"(","hidden_size":64,"num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,)" +
         R"("intermediate_size":96,"vocab_size":50,"max_position_embeddings":128)" + more + "}";
}

TEST(ModelConfig, FamiliesDifferInBiasesAndNormsOfHeads) {
  struct Case {
    const char* type;
    const char* more;
    bool qkv_bias, output_bias, qk_norm;
  };
  for (const Case& c :
       {Case{"llama", "", false, false, false},
        {"llama", R"(,"attention_bias":true)", true, true, false},
        {"qwen2", "", true, false, false},
        {"qwen2", R"(,"layer_types":["full_attention"],"rope_scaling":null)", true, false, false},
        {"qwen3", R"(,"attention_bias":false)", false, false, true}}) {
    const auto config = ParseModelConfig(ConfigWith(c.type, c.more), "config.json");
    ASSERT_TRUE(config.has_value()) << config.error().Format();
    EXPECT_EQ(config->qkv_bias, c.qkv_bias) << c.type << c.more;
    EXPECT_EQ(config->output_bias, c.output_bias) << c.type << c.more;
    EXPECT_EQ(config->qk_norm, c.qk_norm) << c.type << c.more;
  }
}

TEST(ModelConfig, ReadsScaledRopeWhereEitherTransformersWritesIt) {
  const std::string scaling = R"("factor":8,"low_freq_factor":1,"high_freq_factor":4,)"
                              R"("original_max_position_embeddings":32)";
  const auto old_place = ParseModelConfig(
      ConfigWith("llama",
                 R"(,"rope_theta":500.0,"rope_scaling":{"rope_type":"llama3",)" + scaling + "}"),
      "c");
  const auto new_place = ParseModelConfig(
      ConfigWith("llama",
                 R"(,"rope_parameters":{"rope_type":"llama3","rope_theta":500.0,)" + scaling + "}"),
      "c");
  ASSERT_TRUE(old_place.has_value()) << old_place.error().Format();
  ASSERT_TRUE(new_place.has_value()) << new_place.error().Format();
  EXPECT_EQ(*old_place, *new_place);
  EXPECT_EQ(old_place->rope_theta, 500);
  EXPECT_EQ(old_place->rope_scaling.kind, RopeScaling::Kind::kLlama3);
  EXPECT_EQ(old_place->rope_scaling.original_positions, 32);
  const auto linear =
      ParseModelConfig(ConfigWith("llama", R"(,"rope_scaling":{"type":"linear","factor":2})"), "c");
  ASSERT_TRUE(linear.has_value()) << linear.error().Format();
  EXPECT_EQ(linear->rope_scaling.kind, RopeScaling::Kind::kLinear);
}

TEST(ModelConfig, RefusesWhatWouldBeComputedWrongly) {
  struct Case {
    const char* type;
    const char* more;
    const char* message;
  };
  for (const Case& c :
       {Case{"gemma", "", "the lab computes llama, qwen2 and qwen3"},
        {"llama", R"(,"mlp_bias":true)", "no biases of the MLP"},
        {"qwen2", R"(,"use_sliding_window":true)", "attends to all positions"},
        {"qwen3", R"(,"layer_types":["sliding_attention"])", "holds 'sliding_attention'"},
        {"llama", R"(,"rope_scaling":{"rope_type":"yarn","factor":4})",
         "rope_type 'yarn' is not supported"},
        {"llama", R"(,"rope_scaling":{"rope_type":"llama3","factor":4})",
         "low_freq_factor must be"},
        {"llama", R"(,"rope_scaling":{"rope_type":"linear","factor":-1})",
         "factor must be a positive number"},
        {"llama", R"(,"rope_scaling":"linear")", "rope_scaling must be an object"}}) {
    const auto config = ParseModelConfig(ConfigWith(c.type, c.more), "config.json");
    ASSERT_FALSE(config.has_value()) << c.more;
    EXPECT_NE(config.error().Format().find(c.message), std::string::npos)
        << config.error().Format();
  }
}

// As transformers does, whatever a file holds beside the embedding.
TEST(Checkpoint, TheOutputMatrixOfATiedModelIsItsEmbedding) {
  const ScratchDir scratch;
  const Checkpoint made = RandomCheckpoint(SmallConfig());
  CheckpointFiles files = FilesOf(made);
  files.config.insert(1, R"("tie_word_embeddings":true,)");
  WriteFiles(files, scratch / "m");
  const auto read = ReadCheckpoint(scratch / "m");
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(read->lm_head, made.embedding);
}

TEST(Checkpoint, RefusesATruncatedFileAtEveryLength) {
  const ScratchDir scratch;
  WriteFiles(FilesOf(RandomCheckpoint(SmallConfig())), scratch / "m");
  const std::string path = scratch / "m/model.safetensors";
  const auto size = std::filesystem::file_size(path);
  for (const uintmax_t keep : {size - 1, size / 2, uintmax_t{300}, uintmax_t{7}, uintmax_t{0}}) {
    std::filesystem::resize_file(path, keep);
    EXPECT_FALSE(ReadCheckpoint(scratch / "m").has_value()) << keep;
  }
  EXPECT_FALSE(ReadCheckpoint(scratch / "none").has_value());
}

}  // namespace
}  // namespace kcc
