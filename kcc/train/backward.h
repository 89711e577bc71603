// The backward pass of the lab's architecture by hand, over the tape of the engine's own forward
// pass.
//
// It takes the gradients of the logits and adds those of every tensor of the model. What a kernel
// rounds (weights in 8 or 4 bits, activations, the KV cache) it reads as rounded, and passes
// gradients through the rounding as if it were the identity: the straight-through estimator. So
// there is a gradient for every kernel, and it belongs to exactly the logits that a rollout of this
// kernel has. Kernel variants (attention=split, fused operators, fast exponentials) have the
// gradient of the function that they compute up to rounding.
//
// The same bits for any number of threads and on every vector target: every sum has a fixed order
// (products.h, operators.h, attention_backward.h); sums over rows run in the order of the tape's
// rows. Other company or another order of the sequences in a batch changes that order, and with it
// the last bits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kcc/lab/fork_join.h"
#include "kcc/lab/lab_model.h"
#include "kcc/lab/tape.h"
#include "kcc/numeric/row_ops.h"
#include "kcc/train/attention_backward.h"
#include "kcc/train/products.h"

namespace kcc {

class BackwardPass {
 public:
  // The pool outlives it.
  explicit BackwardPass(const ModelConfig& config, ForkJoin& pool, Target target = BestTarget());

  // Reads the model's matrices; after every change of them, before Run.
  void SetModel(const LabModel& model);

  // Gradients of the logits have this stride; elements beyond the vocabulary are zeros.
  size_t logit_stride() const { return GradientStride(config_.vocab); }
  // Adds to `gradients`, which has the model's shapes. `logit_gradients`: a row for each of the
  // tape's head_rows, in their order. Of a tied model all gradients of the embedding go to
  // `embedding`.
  void Run(const LabModel& model, const Tape& tape, std::span<const float> logit_gradients,
           ModelWeights* gradients);

 private:
  struct LayerStacks {
    TransposedStack qkv, output, gate_up, down;
  };
  struct GainPlace {
    std::span<const float> x;  // before the norm
    const float* dy;
    size_t stride;  // of dy
    size_t heads;   // norms in a row
  };
  void Head(const LabModel& model, const Tape& tape, std::span<const float> logit_gradients,
            ModelWeights* gradients);
  void Mlp(const LabModel& model, const Tape& tape, size_t layer, LayerWeights* gradients);
  void Attention(const LabModel& model, const Tape& tape, size_t layer, LayerWeights* gradients);
  void AttendBack(const LayerTape& tape);
  void HeadsBack(const LabModel& model, const Tape& tape, size_t layer, LayerWeights* gradients);
  void Embedding(const Tape& tape, std::vector<float>* gradient);
  void Norms(std::span<const float> x, std::span<const float> gain, const std::vector<float>& dy,
             bool add, std::vector<float>* dx, std::vector<float>* gain_gradient);
  void AddGainGradient(const GainPlace& place, std::vector<float>* gradient);
  void AddColumnSums(const float* rows, size_t stride, std::vector<float>* gradient);
  void PlaceRows(const Tape& tape);

  ModelConfig config_;
  ForkJoin& pool_;
  Target target_;
  const RowOps& ops_;
  std::vector<LayerStacks> layers_;
  TransposedStack head_;
  WeightGradients weights_;
  size_t rows_ = 0;
  std::vector<std::vector<size_t>> rows_of_;  // by request, then position
  size_t qkv_stride_;
  // Gradients of: the residual stream, what enters a norm's consumer, attention's output, the rows
  // of query, key and value side by side, of gate and up side by side, and what enters the down
  // product.
  std::vector<float> dx_, dnormed_, dattended_, dqkv_, dgate_up_, dgated_;
  std::vector<float> inverses_;  // 1 / rms of each row, or of each head of each row
  std::vector<AttentionGradientScratch> scratch_;
};

}  // namespace kcc
