// The part of the forward pass that keeps what a backward pass reads. It copies and never computes,
// but for keys and values: those are rounded to the cache's format here as KvCache rounds them,
// since reading them back would widen a whole block for every row.
#include <algorithm>

#include "kcc/lab/forward.h"
#include "kcc/numeric/quantize.h"

namespace kcc {
namespace {

// What KvCache gives back of what was written to it.
void RoundAsCached(float* heads, size_t count, size_t dim, DType format) {
  for (size_t h = 0; h < count; ++h) {
    const std::span<float> head(heads + h * dim, dim);
    if (format == DType::kF8E4M3 || format == DType::kF8E5M2) {
      RoundScaled(head, format);
    } else {
      RoundValues(head, format);
    }
  }
}

}  // namespace

// All matrices get the rows of this step before threads write into them.
void Forward::BeginTape(std::span<const StepRun> runs) {
  if (tape_ == nullptr) return;
  const ModelConfig& config = model_.config;
  tape_base_ = tape_->rows.size();
  for (const RowPlace& place : places_) {
    const StepRun& run = runs[place.run];
    tape_->rows.push_back(
        {run.request, place.position, place.rope, run.tokens[place.position - run.first_position]});
  }
  tape_->layers.resize(config.layers);
  const size_t rows = tape_->rows.size();
  for (LayerTape& layer : tape_->layers) {
    for (std::vector<float>* matrix :
         {&layer.input, &layer.attention_input, &layer.middle, &layer.mlp_input}) {
      matrix->resize(rows * config.hidden);
    }
    for (std::vector<float>* matrix : {&layer.gate, &layer.up, &layer.gated}) {
      matrix->resize(rows * config.ffn);
    }
    for (std::vector<float>* matrix : {&layer.query, &layer.attended})
      matrix->resize(rows * config.queries());
    for (std::vector<float>* matrix : {&layer.key, &layer.value})
      matrix->resize(rows * config.keys());
    if (config.qk_norm) {
      layer.query_raw.resize(rows * config.queries());
      layer.key_raw.resize(rows * config.keys());
    }
  }
}

void Forward::Keep(std::vector<float>* matrix, size_t row, const float* values,
                   size_t width) const {
  std::copy_n(values, width, matrix->data() + (tape_base_ + row) * width);
}

void Forward::KeepAll(std::vector<float> LayerTape::*matrix, size_t layer,
                      const std::vector<float>& rows) const {
  if (tape_ == nullptr) return;
  std::vector<float>& to = tape_->layers[layer].*matrix;
  std::copy(rows.begin(), rows.end(), to.begin() + static_cast<ptrdiff_t>(to.size() - rows.size()));
}

void Forward::KeepCached(size_t layer, size_t row, const float* key, const float* value) const {
  const ModelConfig& config = model_.config;
  LayerTape& tape = tape_->layers[layer];
  Keep(&tape.key, row, key, config.keys());
  Keep(&tape.value, row, value, config.keys());
  for (std::vector<float>* matrix : {&tape.key, &tape.value}) {
    RoundAsCached(matrix->data() + (tape_base_ + row) * config.keys(), config.kv_heads,
                  config.head_dim, switches_.kv);
  }
}

void Forward::KeepLogits(std::span<const size_t> rows) {
  const size_t width = rows.size() * model_.config.hidden;
  for (const size_t row : rows) tape_->head_rows.push_back(tape_base_ + row);
  tape_->head_input.insert(tape_->head_input.end(), normed_.begin(),
                           normed_.begin() + static_cast<ptrdiff_t>(width));
  tape_->logits.insert(tape_->logits.end(), logits_.begin(), logits_.end());
}

}  // namespace kcc
