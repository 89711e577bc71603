// Norms read from a checkpoint against norms computed from the numbers that were written, and files
// that are none.
#include "kcc/author/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "kcc/format/safetensors.h"

namespace kcc {
namespace {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
  DType dtype = DType::kF32;
};
using Tensors = std::map<std::string, Tensor>;

std::string Write(const Tensors& tensors, const std::string& name) {
  std::vector<TensorInfo> infos;
  std::string bytes;
  for (const auto& [tensor_name, tensor] : tensors) {
    TensorInfo info;
    info.name = tensor_name;
    info.dtype = tensor.dtype;
    info.shape = tensor.shape;
    infos.push_back(info);
    for (const float value : tensor.values) {
      if (tensor.dtype == DType::kBF16) {
        const uint16_t bits = FloatToBF16(value);
        bytes.append(reinterpret_cast<const char*>(&bits), 2);
      } else {
        bytes.append(reinterpret_cast<const char*>(&value), 4);
      }
    }
  }
  const std::string path = (std::filesystem::path(::testing::TempDir()) / name).string();
  std::ofstream(path, std::ios::binary) << SafetensorsPrefix(infos, {}) << bytes;
  return path;
}

constexpr int64_t kWidth = 8;
constexpr int64_t kHidden = 12;

Tensor Random(std::vector<int64_t> shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Tensor tensor{std::move(shape), {}, DType::kF32};
  int64_t count = 1;
  for (const int64_t n : tensor.shape) count *= n;
  for (int64_t i = 0; i < count; ++i) tensor.values.push_back(normal(random));
  return tensor;
}

Tensors Model(int layers) {
  Tensors tensors;
  uint32_t seed = 1;
  for (int l = 0; l < layers; ++l) {
    const std::string at = "model.layers." + std::to_string(l) + ".";
    for (const char* name : {"q", "k", "v", "o"}) {
      tensors[at + "self_attn." + name + "_proj.weight"] = Random({kWidth, kWidth}, seed++);
    }
    tensors[at + "mlp.gate_proj.weight"] = Random({kHidden, kWidth}, seed++);
    tensors[at + "mlp.up_proj.weight"] = Random({kHidden, kWidth}, seed++);
    tensors[at + "mlp.down_proj.weight"] = Random({kWidth, kHidden}, seed++);
    tensors[at + "input_layernorm.weight"] = Random({kWidth}, seed++);
    tensors[at + "post_attention_layernorm.weight"] = Random({kWidth}, seed++);
  }
  tensors["model.norm.weight"] = Random({kWidth}, seed++);
  tensors["model.embed_tokens.weight"] = Random({30, kWidth}, seed++);
  return tensors;
}

ModelFacts Facts() {
  ModelFacts facts;
  facts.heads = 2;
  facts.context = 16;
  facts.rms_min = 0.5;
  facts.rms_max = 3;
  return facts;
}

std::string Problem(const std::string& path, ModelFacts facts = Facts()) {
  const auto model = DescribeCheckpoint(path, facts);
  return model.has_value() ? "" : model.error().Format();
}

// The largest of |W x| over many unit x: a lower bound on the spectral norm.
double Stretch(const Tensor& w) {
  const auto rows = static_cast<size_t>(w.shape[0]);
  const auto columns = static_cast<size_t>(w.shape[1]);
  std::vector<double> x(columns, 1);
  double norm = 0;
  for (int step = 0; step < 500; ++step) {
    std::vector<double> y(rows);
    std::vector<double> z(columns);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) y[i] += w.values[i * columns + j] * x[j];
    }
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) z[j] += w.values[i * columns + j] * y[i];
    }
    double length = 0;
    for (const double v : z) length += v * v;
    length = std::sqrt(length);
    for (size_t j = 0; j < columns; ++j) x[j] = z[j] / length;
    norm = std::sqrt(length);
  }
  return norm;
}

TEST(Checkpoint, NormsAreThoseOfTheWeights) {
  const Tensors tensors = Model(2);
  const auto model = DescribeCheckpoint(Write(tensors, "norms.safetensors"), Facts());
  ASSERT_TRUE(model.has_value()) << model.error().Format();
  EXPECT_EQ(model->layers.size(), 2u);
  EXPECT_EQ(model->width, kWidth);
  EXPECT_EQ(model->head_dim, kWidth / 2);
  EXPECT_EQ(model->lm_head.rows, 30);  // tied to the embedding

  const Tensor& w = tensors.at("model.layers.1.mlp.up_proj.weight");
  double squares = 0, most = 0, longest = 0, row_maxima = 0;
  for (size_t i = 0; i < kHidden; ++i) {
    double row = 0, row_max = 0;
    for (size_t j = 0; j < kWidth; ++j) {
      const double a = std::fabs(w.values[i * kWidth + j]);
      row += a * a;
      row_max = std::max(row_max, a);
    }
    squares += row;
    most = std::max(most, row_max);
    longest = std::max(longest, std::sqrt(row));
    row_maxima += row_max * row_max;
  }
  const WeightNorms& norms = model->layers[1].up;
  EXPECT_EQ(norms.rows, kHidden);
  EXPECT_EQ(norms.columns, kWidth);
  EXPECT_NEAR(norms.frobenius, std::sqrt(squares), 1e-4);
  EXPECT_GE(norms.frobenius, std::sqrt(squares));
  EXPECT_NEAR(norms.max_abs, most, 1e-12);
  EXPECT_NEAR(norms.max_row_l2, longest, 1e-4);
  EXPECT_NEAR(norms.row_max_l2, std::sqrt(row_maxima), 1e-4);
  EXPECT_NEAR(norms.group_max_l2, std::sqrt(row_maxima * kWidth), 1e-3);  // one group a row
  EXPECT_GE(norms.spectral, Stretch(w));
  EXPECT_LE(norms.spectral, 1.2 * Stretch(w));
  EXPECT_LE(norms.spectral, norms.frobenius);
  // And what they are for: a finite envelope that grows with the error.
  KernelDescription kernel;
  kernel.u_logits = 0x1p-8;
  EXPECT_GT(EnvelopeOf(*model, kernel).linf, 0);
}

TEST(Checkpoint, Bf16WeightsAreReadExactly) {
  Tensors tensors = Model(1);
  for (auto& [name, tensor] : tensors) {
    tensor.dtype = DType::kBF16;
    for (float& value : tensor.values) value = BF16ToFloat(FloatToBF16(value));
  }
  const auto narrow = DescribeCheckpoint(Write(tensors, "bf16.safetensors"), Facts());
  for (auto& [name, tensor] : tensors) tensor.dtype = DType::kF32;
  const auto wide = DescribeCheckpoint(Write(tensors, "f32.safetensors"), Facts());
  ASSERT_TRUE(narrow.has_value() && wide.has_value());
  EXPECT_EQ(narrow->layers[0].gate.frobenius, wide->layers[0].gate.frobenius);
  EXPECT_EQ(narrow->layers[0].gate.spectral, wide->layers[0].gate.spectral);
}

TEST(Checkpoint, WhatIsNoLlamaIsRefusedByName) {
  Tensors tensors = Model(2);
  tensors.erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_NE(Problem(Write(tensors, "a")).find("no tensor 'model.layers.1.mlp.up_proj.weight'"),
            std::string::npos);
  tensors = Model(1);
  tensors["model.layers.0.self_attn.q_proj.bias"] = Random({kWidth}, 9);
  EXPECT_NE(Problem(Write(tensors, "b")).find("q_proj.bias' belongs to no plain Llama block"),
            std::string::npos);
  tensors = Model(1);
  tensors["model.layers.0.mlp.gate_proj.weight"].values[17] = NAN;
  EXPECT_NE(Problem(Write(tensors, "c")).find("gate_proj.weight', row 2: a weight is not finite"),
            std::string::npos);
  tensors = Model(1);
  tensors["model.norm.weight"] = Random({2, 4}, 3);
  EXPECT_NE(Problem(Write(tensors, "d")).find("a vector was expected"), std::string::npos);
  tensors = Model(1);
  tensors["model.layers.0.self_attn.o_proj.weight"] = Random({kWidth, 6}, 3);
  EXPECT_NE(Problem(Write(tensors, "e")).find("do not fit a model of width 8"), std::string::npos);
  ModelFacts facts = Facts();
  facts.heads = 3;
  EXPECT_NE(Problem(Write(Model(1), "f"), facts).find("--heads"), std::string::npos);
}

TEST(Checkpoint, DamagedFilesAreErrors) {
  const std::string path = Write(Model(1), "whole.safetensors");
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (const size_t size : {size_t{0}, size_t{5}, size_t{40}, bytes.size() / 2, bytes.size() - 1}) {
    const std::string cut = (std::filesystem::path(::testing::TempDir()) / "cut").string();
    std::ofstream(cut, std::ios::binary) << bytes.substr(0, size);
    EXPECT_NE(Problem(cut), "") << size;
  }
  EXPECT_NE(Problem("nowhere.safetensors"), "");
}

}  // namespace
}  // namespace kcc
