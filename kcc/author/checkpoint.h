// From a safetensors checkpoint of a Llama-style model to the ModelDescription that envelopes start
// from: layers, widths and the norms of every matrix, read row by row in bounded memory.
//
// Tensors go by the names Hugging Face gives them (model.layers.N.self_attn.q_proj.weight, …); a
// missing lm_head is tied to the embedding. A block with anything else in it (biases, query norms,
// experts) is refused by name: the recursion of bounds/envelope.h does not describe it. What the
// weights cannot tell (heads, the rms of the residual stream) is asked for.
#pragma once

#include <cstdint>
#include <string>

#include "kcc/base/result.h"
#include "kcc/bounds/envelope.h"

namespace kcc {

struct ModelFacts {
  int64_t heads = 0;    // of the queries
  int64_t context = 0;  // keys at most
  // Least and greatest rms of the residual stream where norms read it, as measured.
  double rms_min = 0;
  double rms_max = 0;
};

// Quantisation groups run along a row; the usual length.
inline constexpr int64_t kWeightGroup = 128;
inline constexpr int64_t kCheckpointLayersMax = 4096;

// Refuses damaged files, tensors that are no floating-point matrices of the expected shape, and
// weights that are not finite. Cost: one pass over the file.
Result<ModelDescription> DescribeCheckpoint(const std::string& path, const ModelFacts& facts);

}  // namespace kcc
