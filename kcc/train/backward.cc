#include "kcc/train/backward.h"

#include <algorithm>
#include <array>

#include "kcc/base/check.h"
#include "kcc/train/operators.h"

namespace kcc {

// dx_ is the gradient of the residual stream, [rows][hidden], on its way from the last layer to the
// embedding. A layer is x' = x + output(attention(norm(x))), x'' = x' + down(swiglu(norm(x'))), so
// each half adds to dx_ what comes back through its branch.
BackwardPass::BackwardPass(const ModelConfig& config, ForkJoin& pool, Target target)
    : config_(config),
      pool_(pool),
      target_(target),
      ops_(RowOpsFor(target)),
      layers_(config.layers),
      weights_(pool, target),
      qkv_stride_(GradientStride(config.queries() + 2 * config.keys())),
      scratch_(pool.threads()) {}

void BackwardPass::SetModel(const LabModel& model) {
  // Stacks of a layer are few and large: threads take whole stacks, in turns.
  pool_.Run(4 * config_.layers + 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (i == 4 * config_.layers) {
        head_.Assign(std::array{&model.lm_head});
        continue;
      }
      const PackedLayer& w = model.layers[i / 4];
      LayerStacks& to = layers_[i / 4];
      if (i % 4 == 0) to.qkv.Assign(std::array{&w.query, &w.key, &w.value});
      if (i % 4 == 1) to.output.Assign(std::array{&w.output});
      if (i % 4 == 2) to.gate_up.Assign(std::array{&w.gate, &w.up});
      if (i % 4 == 3) to.down.Assign(std::array{&w.down});
    }
  });
}

void BackwardPass::Run(const LabModel& model, const Tape& tape,
                       std::span<const float> logit_gradients, ModelWeights* gradients) {
  KCC_CHECK(logit_gradients.size() == tape.head_rows.size() * logit_stride());
  if (tape.head_rows.empty()) return;
  PlaceRows(tape);
  Head(model, tape, logit_gradients, gradients);
  for (size_t layer = config_.layers; layer-- > 0;) {
    Mlp(model, tape, layer, &gradients->layers[layer]);
    Attention(model, tape, layer, &gradients->layers[layer]);
  }
  Embedding(tape, &gradients->embedding);
}

void BackwardPass::PlaceRows(const Tape& tape) {
  rows_ = tape.rows.size();
  size_t requests = 0;
  for (const TapeRow& row : tape.rows) requests = std::max(requests, row.request + 1);
  rows_of_.assign(requests, {});
  for (size_t r = 0; r < rows_; ++r) {
    std::vector<size_t>& of = rows_of_[tape.rows[r].request];
    // A kernel variant computes later positions after those before them, so they come in order.
    KCC_CHECK(of.size() == tape.rows[r].position);
    of.push_back(r);
  }
  dx_.resize(rows_ * config_.hidden);
  dnormed_.resize(rows_ * config_.hidden);
  dattended_.resize(rows_ * config_.queries());
  dqkv_.assign(rows_ * qkv_stride_, 0.0f);
  dgate_up_.resize(rows_ * 2 * config_.ffn);
  dgated_.resize(rows_ * config_.ffn);
}

// Column sums of dy x / rms(x), whose norms were those of `inverses_`.
void BackwardPass::AddGainGradient(const GainPlace& place, std::vector<float>* gradient) {
  const size_t n = gradient->size();
  const size_t rows = place.x.size() / (n * place.heads);
  pool_.Run(n, [&](size_t begin, size_t end) {
    for (size_t r = 0; r < rows; ++r) {
      for (size_t h = 0; h < place.heads; ++h) {
        const float* x = &place.x[(r * place.heads + h) * n];
        const float* dy = place.dy + r * place.stride + h * n;
        const float inverse = inverses_[r * place.heads + h];
        for (size_t i = begin; i < end; ++i) (*gradient)[i] += dy[i] * (x[i] * inverse);
      }
    }
  });
}

void BackwardPass::AddColumnSums(const float* rows, size_t stride, std::vector<float>* gradient) {
  pool_.Run(gradient->size(), [&](size_t begin, size_t end) {
    for (size_t r = 0; r < rows_; ++r) {
      for (size_t i = begin; i < end; ++i) (*gradient)[i] += rows[r * stride + i];
    }
  });
}

// Back through the norms of rows of the residual stream.
void BackwardPass::Norms(std::span<const float> x, std::span<const float> gain,
                         const std::vector<float>& dy, bool add, std::vector<float>* dx,
                         std::vector<float>* gain_gradient) {
  const size_t n = config_.hidden;
  const size_t rows = x.size() / n;
  inverses_.resize(rows);
  pool_.Run(rows, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      inverses_[r] = NormBackward(x.subspan(r * n, n), gain, config_.rms_eps, &dy[r * n], add, ops_,
                                  dx->data() + r * n);
    }
  });
  AddGainGradient({x, dy.data(), n, 1}, gain_gradient);
}

void BackwardPass::Head(const LabModel& model, const Tape& tape,
                        std::span<const float> logit_gradients, ModelWeights* gradients) {
  const size_t hidden = config_.hidden;
  const size_t count = tape.head_rows.size();
  std::vector<float>& matrix = config_.tied ? gradients->embedding : gradients->lm_head;
  weights_.Add(logit_gradients.data(), logit_stride(), tape.head_input.data(), hidden, count,
               std::array{WeightGradientPart{config_.vocab, matrix.data()}});
  // The rows that had logits are gathered, as the forward pass gathered them, and scattered again.
  std::vector<float> dnormed(count * hidden), dhead(count * hidden), x(count * hidden);
  head_.InputGradient(logit_gradients.data(), count, pool_, target_, dnormed.data());
  for (size_t i = 0; i < count; ++i) {
    std::copy_n(&tape.output[tape.head_rows[i] * hidden], hidden, &x[i * hidden]);
  }
  Norms(x, model.final_gain, dnormed, false, &dhead, &gradients->final_gain);
  std::fill(dx_.begin(), dx_.end(), 0.0f);
  for (size_t i = 0; i < count; ++i) {
    std::copy_n(&dhead[i * hidden], hidden, &dx_[tape.head_rows[i] * hidden]);
  }
}

void BackwardPass::Mlp(const LabModel& model, const Tape& tape, size_t layer,
                       LayerWeights* gradients) {
  const LayerTape& kept = tape.layers[layer];
  const LayerStacks& stacks = layers_[layer];
  const size_t ffn = config_.ffn;
  weights_.Add(dx_.data(), config_.hidden, kept.gated.data(), ffn, rows_,
               std::array{WeightGradientPart{config_.hidden, gradients->down.data()}});
  stacks.down.InputGradient(dx_.data(), rows_, pool_, target_, dgated_.data());
  pool_.Run(rows_, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      float* to = &dgate_up_[r * 2 * ffn];
      GateBackward({&kept.gate[r * ffn], ffn}, {&kept.up[r * ffn], ffn}, &dgated_[r * ffn], ops_,
                   to, to + ffn);
    }
  });
  weights_.Add(dgate_up_.data(), 2 * ffn, kept.mlp_input.data(), config_.hidden, rows_,
               std::array{WeightGradientPart{ffn, gradients->gate.data()},
                          WeightGradientPart{ffn, gradients->up.data()}});
  stacks.gate_up.InputGradient(dgate_up_.data(), rows_, pool_, target_, dnormed_.data());
  Norms(kept.middle, model.layers[layer].mlp_gain, dnormed_, true, &dx_, &gradients->mlp_gain);
}

void BackwardPass::Attention(const LabModel& model, const Tape& tape, size_t layer,
                             LayerWeights* gradients) {
  const LayerTape& kept = tape.layers[layer];
  const LayerStacks& stacks = layers_[layer];
  const size_t hidden = config_.hidden;
  if (config_.output_bias) AddColumnSums(dx_.data(), hidden, &gradients->output_bias);
  weights_.Add(dx_.data(), hidden, kept.attended.data(), config_.queries(), rows_,
               std::array{WeightGradientPart{hidden, gradients->output.data()}});
  stacks.output.InputGradient(dx_.data(), rows_, pool_, target_, dattended_.data());
  AttendBack(kept);
  HeadsBack(model, tape, layer, gradients);
  weights_.Add(dqkv_.data(), qkv_stride_, kept.attention_input.data(), hidden, rows_,
               std::array{WeightGradientPart{config_.queries(), gradients->query.data()},
                          WeightGradientPart{config_.keys(), gradients->key.data()},
                          WeightGradientPart{config_.keys(), gradients->value.data()}});
  stacks.qkv.InputGradient(dqkv_.data(), rows_, pool_, target_, dnormed_.data());
  Norms(kept.input, model.layers[layer].attention_gain, dnormed_, true, &dx_,
        &gradients->attention_gain);
}

// A job is a sequence and a KV head: nothing that two of them write is the same. Threads take them
// in turns, since sequences have different lengths.
void BackwardPass::AttendBack(const LayerTape& kept) {
  const size_t group = config_.heads / config_.kv_heads;
  const size_t dim = config_.head_dim;
  const size_t jobs = rows_of_.size() * config_.kv_heads;
  const size_t threads = pool_.threads();
  pool_.Run(threads, [&](size_t begin, size_t end) {
    for (size_t thread = begin; thread < end; ++thread) {
      for (size_t j = thread; j < jobs; j += threads) {
        const size_t head = j % config_.kv_heads;
        const size_t of_queries = head * group * dim;
        const size_t of_keys = head * dim;
        AttentionGradientJob job;
        job.rows = rows_of_[j / config_.kv_heads];
        job.heads = group;
        job.head_dim = dim;
        job.query = {&kept.query[of_queries], config_.queries()};
        job.key = {&kept.key[of_keys], config_.keys()};
        job.value = {&kept.value[of_keys], config_.keys()};
        job.out_gradient = {&dattended_[of_queries], config_.queries()};
        job.query_gradient = {&dqkv_[of_queries], qkv_stride_};
        job.key_gradient = {&dqkv_[config_.queries() + of_keys], qkv_stride_};
        job.value_gradient = {&dqkv_[config_.queries() + config_.keys() + of_keys], qkv_stride_};
        AttentionBackward(job, ops_, &scratch_[thread]);
      }
    }
  });
}

// From attention's queries and keys to what their products gave: RoPE, norms of heads, biases.
void BackwardPass::HeadsBack(const LabModel& model, const Tape& tape, size_t layer,
                             LayerWeights* gradients) {
  const LayerTape& kept = tape.layers[layer];
  const size_t dim = config_.head_dim;
  const PackedLayer& w = model.layers[layer];
  struct Side {
    size_t offset;  // in a row of dqkv_
    size_t heads;
    std::span<const float> raw, gain;
    std::vector<float>* gain_gradient;
    std::vector<float>* bias_gradient;
  };
  const Side sides[] = {{0, config_.heads, kept.query_raw, w.query_gain, &gradients->query_gain,
                         &gradients->query_bias},
                        {config_.queries(), config_.kv_heads, kept.key_raw, w.key_gain,
                         &gradients->key_gain, &gradients->key_bias}};
  for (const Side& side : sides) {
    const auto for_heads = [&](const auto& apply) {
      pool_.Run(rows_, [&](size_t begin, size_t end) {
        for (size_t r = begin; r < end; ++r) {
          for (size_t h = 0; h < side.heads; ++h)
            apply(r, h, &dqkv_[r * qkv_stride_ + side.offset + h * dim]);
        }
      });
    };
    for_heads(
        [&](size_t r, size_t, float* head) { model.rope.RotateBack(tape.rows[r].rope, head); });
    if (config_.qk_norm) {
      // The gain's gradient needs dy, which the norm's then replaces.
      inverses_.resize(rows_ * side.heads);
      const auto raw = [&](size_t r, size_t h) {
        return side.raw.subspan((r * side.heads + h) * dim, dim);
      };
      std::vector<float> dx(rows_ * side.heads * dim);
      for_heads([&](size_t r, size_t h, float* head) {
        inverses_[r * side.heads + h] = NormBackward(raw(r, h), side.gain, config_.rms_eps, head,
                                                     false, ops_, &dx[(r * side.heads + h) * dim]);
      });
      AddGainGradient({side.raw, &dqkv_[side.offset], qkv_stride_, side.heads}, side.gain_gradient);
      for_heads([&](size_t r, size_t h, float* head) {
        std::copy_n(&dx[(r * side.heads + h) * dim], dim, head);
      });
    }
    if (config_.qkv_bias) AddColumnSums(&dqkv_[side.offset], qkv_stride_, side.bias_gradient);
  }
  if (config_.qkv_bias) {
    AddColumnSums(&dqkv_[config_.queries() + config_.keys()], qkv_stride_, &gradients->value_bias);
  }
}

// Rows of one token are added in the order of the rows; threads share out the columns.
void BackwardPass::Embedding(const Tape& tape, std::vector<float>* gradient) {
  const size_t hidden = config_.hidden;
  pool_.Run(hidden, [&](size_t begin, size_t end) {
    for (size_t r = 0; r < rows_; ++r) {
      float* to = gradient->data() + static_cast<size_t>(tape.rows[r].token) * hidden;
      for (size_t i = begin; i < end; ++i) to[i] += dx_[r * hidden + i];
    }
  });
}

}  // namespace kcc
