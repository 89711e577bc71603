// A checkpoint in Hugging Face's layout: config.json and model.safetensors.
//
// What the engine computes is said in model_config.h. Weights are widened to float32, which loses
// nothing.
#pragma once

#include <string>

#include "kcc/base/result.h"
#include "kcc/lab/model_config.h"

namespace kcc {

struct Checkpoint : ModelWeights {
  ModelConfig config;
  std::string digest;  // SHA-256 of both files
};

// Reads a directory. Fails, naming the file and the tensor, on a tensor that is missing, of
// another shape or dtype, or that holds a number that is not finite. The output matrix of a tied
// model is the embedding, whatever the file holds beside it.
Result<Checkpoint> ReadCheckpoint(const std::string& directory);

}  // namespace kcc
