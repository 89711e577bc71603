// The backward pass of causal attention for one sequence and one KV head, with the query heads that
// share it.
//
// With scores s_tj = scale q_t k_j, p_t = softmax over j <= t, o_t = sum_j p_tj v_j and the
// gradient g_t of o_t:
//   dp_tj = g_t v_j,  ds_tj = p_tj (dp_tj - sum_i p_ti dp_ti),
//   dq_t = scale sum_j ds_tj k_j,  dk_j = scale sum_t ds_tj q_t,  dv_j = sum_t p_tj g_t.
// The weights p are computed again from queries and keys, some tokens at a time, so that memory
// grows with the length of the sequence and not with its square. Sums over keys run in the order of
// keys, those over tokens in the order of (token, head), whatever else is computed at the same
// time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kcc/numeric/row_ops.h"

namespace kcc {

// Row r of a matrix of the batch, at the first element of this head.
struct HeadRows {
  const float* data = nullptr;
  size_t stride = 0;
  const float* row(size_t r) const { return data + r * stride; }
};
struct MutableHeadRows {
  float* data = nullptr;
  size_t stride = 0;
  float* row(size_t r) const { return data + r * stride; }
};

struct AttentionGradientJob {
  std::span<const size_t> rows;  // of the sequence's tokens, by position
  size_t heads = 0;              // query heads that share the KV head, one after the other in a row
  size_t head_dim = 0;           // a multiple of 16
  HeadRows query, key, value, out_gradient;
  MutableHeadRows query_gradient, key_gradient, value_gradient;  // written
};

struct AttentionGradientScratch {
  std::vector<float> queries, out_gradients, query_gradients;  // (token, head) by dimension
  std::vector<float> keys, keys_across, values_across;         // [token][dim]; [dim][token]
  std::vector<float> key_gradients, value_gradients;
  std::vector<float> weights, weight_gradients, across;  // of a block of tokens
};

void AttentionBackward(const AttentionGradientJob& job, const RowOps& ops,
                       AttentionGradientScratch* scratch);

}  // namespace kcc
