// Writes a checkpoint in Hugging Face's layout, which `lab:` kernels, transformers and vLLM load.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/lab/model_config.h"

namespace kcc {

// A file that is written beside the weights as it is: of the tokenizer, say.
struct CompanionFile {
  std::string name;
  std::string bytes;
};
// Those of a model's directory that belong to its tokenizer and its generation defaults, as far as
// they are there.
Result<std::vector<CompanionFile>> ReadCompanions(const std::string& directory);

// A config.json as `json`, but for the dtype of the weights. Fails where `json` is no object.
Result<std::string> ConfigWithDType(std::string_view json, DType dtype);

// Writes config.json, model.safetensors and the companions into an existing directory: all of them,
// or on failure none. Weights are rounded to nearest, ties to even. Precondition: F32 or BF16; the
// config is that of `config_json`.
Result<> WriteCheckpoint(const std::string& directory, std::string_view config_json,
                         const ModelConfig& config, const ModelWeights& weights, DType dtype,
                         const std::vector<CompanionFile>& companions);

}  // namespace kcc
