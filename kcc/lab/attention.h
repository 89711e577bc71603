// Attention of one KV head over a paged cache: its query heads at a few consecutive positions of
// one sequence, each seeing the keys up to its own position.
//
// Three ways to sum (switch `attention`); every sum over keys runs in order of the keys, so that
// none depends on the page size or on which positions were computed together.
#pragma once

#include <cstddef>
#include <vector>

#include "kcc/lab/kv_cache.h"
#include "kcc/lab/switches.h"
#include "kcc/numeric/row_ops.h"

namespace kcc {

struct AttentionJob {
  const KvCache* cache = nullptr;
  const BlockTable* table = nullptr;
  size_t layer = 0;
  size_t kv_head = 0;
  size_t first_position = 0;
  size_t tokens = 0;  // consecutive positions, at most kAttentionTokensMax
  size_t heads = 0;   // query heads that share the KV head
  size_t head_dim = 0;
  const float* queries = nullptr;  // token t, head h at t * stride + h * head_dim
  size_t stride = 0;
  float* out = nullptr;  // in the same layout
};
inline constexpr size_t kAttentionTokensMax = 8;

struct AttentionScratch {
  std::vector<float> scores, sums, block, queries;
  std::vector<double> wide_scores, wide_sums;
};

// e^x in double; the fast kind is float32's even there.
double WideExp(double x, ExpKind kind, const RowOps& ops);

// `wide`: scores, softmax and sums in double.
void Attend(const AttentionJob& job, const AttentionChoice& choice, ExpKind exp, bool wide,
            const RowOps& ops, AttentionScratch* scratch);

}  // namespace kcc
