// Weights to start from, of a model that only a config describes.
#pragma once

#include <cstdint>

#include "kcc/lab/model_config.h"

namespace kcc {

// As transformers initialises them: matrices and embedding normal with the standard deviation
// `range` (config.json's initializer_range), gains 1, biases 0. A number follows from the seed and
// its place, by arithmetic that has the same bits everywhere.
ModelWeights InitialWeights(const ModelConfig& config, uint64_t seed);

}  // namespace kcc
