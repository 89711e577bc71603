// A small pre-norm transformer (RMSNorm, RoPE, causal attention, SwiGLU) whose every source of
// numerical error can be switched on alone: the network on which envelopes are checked.
//
// Values are held in double; an emulated kernel rounds them where a real one would.
#pragma once

#include <vector>

#include "bench/bounds/random.h"
#include "kcc/bounds/envelope.h"

namespace kcc::bench {

struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;  // row-major
  double At(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

struct ToyLayer {
  std::vector<double> attention_gain, mlp_gain;
  Matrix query, key, value, output, gate, up, down;
};

struct ToyTransformer {
  int64_t width = 0, heads = 0, head_dim = 0, hidden = 0, vocabulary = 0;
  Matrix embedding;
  std::vector<ToyLayer> layers;
  std::vector<double> final_gain;
  Matrix lm_head;

  static ToyTransformer Sample(Random& random, int64_t layers);
};

// What the emulated kernel does; the defaults are exact (double).
struct ToyKernel {
  bool fp32 = false;  // arithmetic of reductions and elementwise work
  Schedule schedule = Schedule::kSequential;
  int64_t block = 16;
  bool rounds_store = false;
  DType store = DType::kF32;   // activations between operators
  bool rounds_logits = false;  // to BF16
  QuantizerDescription activations;
  QuantizerDescription kv_cache;
  bool fp32_attention = false;  // online softmax in fp32 over tiles
  int64_t attention_tile = 0;
  bool bf16_probabilities = false;
};

using Logits = std::vector<std::vector<double>>;  // position-major

// Runs the network; where `model` is not null, fills in the measured rms of the residual stream.
Logits Forward(const ToyTransformer& network, const ToyKernel& kernel,
               const std::vector<int>& tokens, ModelDescription* model);

// The same network with every matrix of its layers (and the lm_head, if asked) quantised.
inline constexpr int64_t kToyGroup = 16;
ToyTransformer QuantizeWeights(const ToyTransformer& network, const QuantizerDescription& quantizer,
                               bool lm_head);

// Its norms; rms values are left for Forward().
ModelDescription Describe(const ToyTransformer& network, int64_t context);

}  // namespace kcc::bench
