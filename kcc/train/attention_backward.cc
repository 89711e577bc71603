#include "kcc/train/attention_backward.h"

#include <algorithm>
#include <cmath>

namespace kcc {
namespace {

constexpr size_t kBlockTokens = 32;

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

class Pass {
 public:
  Pass(const AttentionGradientJob& job, const RowOps& ops, AttentionGradientScratch* scratch)
      : job_(job),
        ops_(ops),
        s_(*scratch),
        tokens_(job.rows.size()),
        dim_(job.head_dim),
        stride_(RoundUp(tokens_, 16)),
        scale_(1.0f / std::sqrt(static_cast<float>(job.head_dim))) {}

  void Run() {
    Gather();
    for (size_t begin = 0; begin < tokens_; begin += kBlockTokens) {
      Block(begin, std::min(tokens_, begin + kBlockTokens));
    }
    Scatter();
  }

 private:
  // Rows (token, head) one after the other, and keys and values dimension by dimension as well.
  void Gather() {
    const size_t rows = tokens_ * job_.heads;
    s_.queries.resize(rows * dim_);
    s_.out_gradients.resize(rows * dim_);
    s_.query_gradients.assign(rows * dim_, 0.0f);
    s_.keys.resize(tokens_ * dim_);
    s_.keys_across.assign(dim_ * stride_, 0.0f);
    s_.values_across.assign(dim_ * stride_, 0.0f);
    s_.key_gradients.assign(tokens_ * dim_, 0.0f);
    s_.value_gradients.assign(tokens_ * dim_, 0.0f);
    for (size_t t = 0; t < tokens_; ++t) {
      const size_t row = job_.rows[t];
      const size_t width = job_.heads * dim_;
      std::copy_n(job_.query.row(row), width, &s_.queries[t * width]);
      std::copy_n(job_.out_gradient.row(row), width, &s_.out_gradients[t * width]);
      std::copy_n(job_.key.row(row), dim_, &s_.keys[t * dim_]);
      for (size_t d = 0; d < dim_; ++d) {
        s_.keys_across[d * stride_ + t] = job_.key.row(row)[d];
        s_.values_across[d * stride_ + t] = job_.value.row(row)[d];
      }
    }
  }

  // [rows of the block][keys up to its last token] = rows times keys or values.
  void Products(const float* rows, size_t count, const float* across, size_t keys, float scale,
                float* to) {
    ScoreBlock<float> block;
    block.queries = rows;
    block.query_stride = dim_;
    block.rows = count;
    block.keys = across;
    block.key_stride = stride_;
    block.count = keys;
    block.dims = dim_;
    block.scale = scale;
    block.scores = to;
    block.score_stride = stride_;
    ops_.scores(block);
  }

  // sums[r] += sum_j weights[r][j] values[j].
  void Sum(const float* weights, size_t weight_stride, size_t rows, const float* values,
           size_t count, float* sums) {
    ValueBlock<float> block;
    block.weights = weights;
    block.weight_stride = weight_stride;
    block.rows = rows;
    block.values = values;
    block.count = count;
    block.dims = dim_;
    block.sums = sums;
    block.sum_stride = dim_;
    ops_.values(block);
  }

  void Block(size_t begin, size_t end) {
    const size_t first = begin * job_.heads;
    const size_t rows = (end - begin) * job_.heads;
    s_.weights.resize(rows * stride_);
    s_.weight_gradients.resize(rows * stride_);
    const float* queries = &s_.queries[first * dim_];
    const float* out_gradients = &s_.out_gradients[first * dim_];
    Products(queries, rows, s_.keys_across.data(), end, scale_, s_.weights.data());
    Products(out_gradients, rows, s_.values_across.data(), end, 1.0f, s_.weight_gradients.data());
    for (size_t r = 0; r < rows; ++r) {
      SoftmaxBackward(begin + r / job_.heads + 1, end, &s_.weights[r * stride_],
                      &s_.weight_gradients[r * stride_]);
    }
    Sum(s_.weight_gradients.data(), stride_, rows, s_.keys.data(), end,
        &s_.query_gradients[first * dim_]);
    const size_t across_stride = RoundUp(rows, 16);
    Transpose(s_.weights.data(), rows, end, across_stride);
    Sum(s_.across.data(), across_stride, end, out_gradients, rows, s_.value_gradients.data());
    Transpose(s_.weight_gradients.data(), rows, end, across_stride);
    Sum(s_.across.data(), across_stride, end, queries, rows, s_.key_gradients.data());
  }

  // Of one row: scores to weights, and the gradients of the weights to those of q k. Both are 0 for
  // keys that the token does not see.
  void SoftmaxBackward(size_t visible, size_t keys, float* weights, float* gradients) {
    const float highest = *std::max_element(weights, weights + visible);
    ops_.exp(weights, visible, highest, ExpKind::kAccurate);
    const float inverse = 1.0f / ops_.sum(weights, visible);
    for (size_t j = 0; j < visible; ++j) weights[j] *= inverse;
    const float mean = ops_.dot(weights, gradients, visible);
    for (size_t j = 0; j < visible; ++j)
      gradients[j] = scale_ * (weights[j] * (gradients[j] - mean));
    std::fill(weights + visible, weights + keys, 0.0f);
    std::fill(gradients + visible, gradients + keys, 0.0f);
  }

  // across[j][r] = from[r][j]
  void Transpose(const float* from, size_t rows, size_t keys, size_t across_stride) {
    s_.across.resize(keys * across_stride);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < keys; ++j) s_.across[j * across_stride + r] = from[r * stride_ + j];
    }
  }

  void Scatter() {
    const size_t width = job_.heads * dim_;
    for (size_t t = 0; t < tokens_; ++t) {
      const size_t row = job_.rows[t];
      std::copy_n(&s_.query_gradients[t * width], width, job_.query_gradient.row(row));
      std::copy_n(&s_.key_gradients[t * dim_], dim_, job_.key_gradient.row(row));
      std::copy_n(&s_.value_gradients[t * dim_], dim_, job_.value_gradient.row(row));
    }
  }

  const AttentionGradientJob& job_;
  const RowOps& ops_;
  AttentionGradientScratch& s_;
  size_t tokens_;
  size_t dim_;
  size_t stride_;  // of keys, in whole vectors
  float scale_;
};

}  // namespace

void AttentionBackward(const AttentionGradientJob& job, const RowOps& ops,
                       AttentionGradientScratch* scratch) {
  Pass(job, ops, scratch).Run();
}

}  // namespace kcc
