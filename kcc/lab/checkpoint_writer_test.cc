#include "kcc/lab/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "kcc/lab/lab_test_data.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using testing::FilesOf;
using testing::RandomCheckpoint;
using testing::ScratchDir;
using testing::SmallConfig;

TEST(CheckpointWriter, WhatIsWrittenReadsBackToTheBit) {
  ModelConfig config = SmallConfig();
  config.family = ModelFamily::kQwen2;
  config.qkv_bias = true;
  const Checkpoint made = RandomCheckpoint(config);
  const std::string json = FilesOf(made).config;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const ScratchDir scratch;
    const std::string directory = scratch / "";
    const auto written =
        WriteCheckpoint(directory, json, config, made, dtype, {{"tokenizer.json", "{}"}});
    ASSERT_TRUE(written.has_value()) << written.error().Format();
    auto read = ReadCheckpoint(directory);
    ASSERT_TRUE(read.has_value()) << read.error().Format();
    EXPECT_EQ(read->config, config);
    Checkpoint expected = made;
    if (dtype == DType::kBF16) {
      for (const ModelTensor& tensor : TensorsOf(config, &expected)) {
        for (float& value : *tensor.values) value = BF16ToFloat(FloatToBF16(value));
      }
    }
    const auto left = TensorsOf(config, &*read);
    const auto right = TensorsOf(config, &expected);
    for (size_t i = 0; i < left.size(); ++i)
      EXPECT_EQ(*left[i].values, *right[i].values) << left[i].name;
    std::ifstream tokenizer(directory + "/tokenizer.json");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(tokenizer), {}), "{}");
    const auto companions = ReadCompanions(directory);
    ASSERT_TRUE(companions.has_value());
    ASSERT_EQ(companions->size(), 1u);
  }
}

TEST(CheckpointWriter, AConfigKeepsAllButTheDType) {
  const auto text =
      ConfigWithDType(R"({"a":[1,-2,2.5,10000.0,1e-05,null,true,"x"],"dtype":"bfloat16",)"
                      R"("rope":{"dtype":"y"},"torch_dtype":"float16","n":18446744073709551615})",
                      DType::kF32);
  ASSERT_TRUE(text.has_value()) << text.error().Format();
  std::string flat;
  for (const char c : *text) {
    if (c != ' ' && c != '\n') flat += c;
  }
  EXPECT_EQ(flat,
            R"({"a":[1,-2,2.5,10000.0,1e-05,null,true,"x"],"dtype":"float32","rope":{"dtype":"y"},)"
            R"("torch_dtype":"float32","n":18446744073709551615})");
  EXPECT_NE(ConfigWithDType("{}", DType::kBF16)->find("\"dtype\": \"bfloat16\""),
            std::string::npos);
  EXPECT_FALSE(ConfigWithDType("[]", DType::kF32).has_value());
}

}  // namespace
}  // namespace kcc
