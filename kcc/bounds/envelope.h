// Source envelopes: how far a kernel's logits may lie from exact arithmetic with exact weights,
// from a description of the model and of the kernel (paper section 5.3; docs/math.md D.4).
//
// A scalar recursion: e bounds ||x' - x||_2 of the residual stream at every position, and each
// block passes it on as (1 + kappa) e + eps. Loose by construction (errors compound with the
// layers, docs/math.md A.9 W8), so good for saying which sources could explain a drift and for
// ceilings, not for tight thresholds; the statistical form proposes those. Two kernels differ by at
// most the sum of their envelopes. Weight norms alone do not suffice: RMSNorm's gain is 1/rms(x),
// so the least and greatest rms of the residual stream are measured inputs, and further measured
// maxima tighten what the weights allow. The envelope holds for contexts within the measured
// numbers. Attention scores are taken to stay in the attention's own arithmetic (fused kernels).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kcc/bounds/arithmetic.h"
#include "kcc/bounds/operator_error.h"
#include "kcc/bounds/reduction.h"

namespace kcc {

// Numbers that describe one weight matrix (rows: outputs, columns: inputs).
struct WeightNorms {
  int64_t rows = 0;
  int64_t columns = 0;
  double spectral = 0;  // or any upper bound on it
  double frobenius = 0;
  double max_abs = 0;
  double row_max_l2 = 0;    // sqrt(sum over rows of max_j|W_ij|^2)
  double group_max_l2 = 0;  // the same over the quantisation groups
  double max_row_l2 = 0;    // the longest row
};

// Largest values seen in exact arithmetic, over positions and heads; 0: not measured, what the
// weights allow is used instead.
struct ActivationMaxima {
  double attention_input = 0;  // ||.||_2 of the normalised input
  double query_head = 0;       // ||.||_2 of one head's vector
  double key_head = 0;
  double value_head = 0;
  double mlp_input = 0;
  double gate_abs = 0;  // largest |entry| before SiLU
  double up_abs = 0;
  double hidden = 0;  // ||.||_2 of silu(gate) * up
};

struct LayerDescription {
  WeightNorms query, key, value, output;  // attention
  WeightNorms gate, up, down;             // SwiGLU
  double attention_gain_max = 1;          // max|gain| of the RMSNorms
  double mlp_gain_max = 1;
  double attention_rms_min = 1;  // of the residual stream where that norm reads it
  double mlp_rms_min = 1;
  double residual_rms_max = 1;  // after either residual addition
  ActivationMaxima maxima;
};

struct ModelDescription {
  int64_t width = 0;
  int64_t heads = 1;
  int64_t head_dim = 0;
  int64_t context = 1;  // keys at most
  std::vector<LayerDescription> layers;
  double final_gain_max = 1;
  double final_rms_min = 1;
  WeightNorms lm_head;
};

// How numbers are quantised; kExact leaves them alone.
enum class Quantizer { kExact, kInt, kScaledFloat };
enum class Granularity { kPerTensor, kPerChannel, kPerGroup };

struct QuantizerDescription {
  Quantizer quantizer = Quantizer::kExact;
  int bits = 8;                                       // kInt
  DType format = DType::kF8E4M3;                      // kScaledFloat: scale = amax/largest
  Granularity granularity = Granularity::kPerTensor;  // of weights
};

// One kernel, as its sources of error; everything defaults to exact.
struct KernelDescription {
  QuantizerDescription weights;  // every matrix of the layers
  bool quantizes_lm_head = false;
  QuantizerDescription activations;  // inputs of every matrix, one scale a token
  QuantizerDescription kv_cache;     // one scale a head and token
  double u_accumulate = 0;           // of every reduction
  Schedule schedule = Schedule::kAnyOrder;
  int64_t block = 1;
  bool products_round = true;
  double u_store = 0;  // of activations between operators
  double u_angle = 0;  // of RoPE's angles
  int64_t attention_tile = 0;
  double u_attention = 0;
  double exp_error = 0;
  double u_probability = 0;
  double u_logits = 0;  // of the stored logits
};

enum class EnvelopeForm { kWorstCase, kStatistical };

struct Envelope {
  double linf = 0;  // on |z' - z| of every raw logit; span of z' - z <= 2 linf
  // After each layer: the residual stream's error in l2. Where RMSNorm can no longer tell, the
  // envelope saturates at what bounded outputs allow and is vacuous.
  std::vector<double> residual;
  bool vacuous = false;
};

Envelope EnvelopeOf(const ModelDescription& model, const KernelDescription& kernel,
                    EnvelopeForm form = EnvelopeForm::kWorstCase);

// The kernel with one source left: which of them could explain a drift alone?
enum class EnvelopeSource {
  kWeights,
  kActivations,
  kKvCache,
  kReduction,
  kStorage,
  kAngles,
  kAttention,
  kLogits
};
std::string_view SourceName(EnvelopeSource source);
KernelDescription OnlySource(const KernelDescription& kernel, EnvelopeSource source);

// ||Q(W) - W||_F, worst case or root mean square.
double WeightErrorFrobenius(const WeightNorms& weights, const QuantizerDescription& quantizer,
                            EnvelopeForm form);

}  // namespace kcc
