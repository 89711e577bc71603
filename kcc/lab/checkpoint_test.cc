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
