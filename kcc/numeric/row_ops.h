// The row operations of a transformer besides its matrix products: attention scores, softmax
// pieces, weighted sums of values, norms and gates. One table of functions a target, same bits on
// each.
//
// Sums over a row use sixteen virtual lanes (element i in lane i mod 16) and one fixed tree; sums
// over keys and over head dimensions are chains in order. So nothing depends on how keys lie in
// pages or how rows were batched. The double versions serve the training kernel.
#pragma once

#include <cstddef>

#include "kcc/numeric/target.h"

namespace kcc {

// How e^x is computed in float32.
enum class ExpKind {
  kAccurate,  // within 2e-7
  kFast,      // a cubic in the fraction of the base-2 exponent: within 9e-5
};

// Scores of `rows` queries against a block of keys stored dimension by dimension.
template <class Real>
struct ScoreBlock {
  const float* queries = nullptr;
  size_t query_stride = 0;
  size_t rows = 0;
  const float* keys = nullptr;  // key j's dimension d at keys[d * key_stride + j]
  size_t key_stride = 0;        // a multiple of 16, at least `count` rounded up to it
  size_t count = 0;             // keys
  size_t dims = 0;
  Real scale = 1;
  Real* scores = nullptr;  // row r's at scores + r * score_stride; room for a multiple of 16 keys
  size_t score_stride = 0;
};

// sums[r] += sum_j weights[r][j] values[j], in order of j.
template <class Real>
struct ValueBlock {
  const Real* weights = nullptr;
  size_t weight_stride = 0;
  size_t rows = 0;
  const float* values = nullptr;  // key j's at values + j * dims
  size_t count = 0;
  size_t dims = 0;  // a multiple of 16
  Real* sums = nullptr;
  size_t sum_stride = 0;
};

struct RowOps {
  void (*scores)(const ScoreBlock<float>&);
  void (*scores_double)(const ScoreBlock<double>&);
  void (*values)(const ValueBlock<float>&);
  void (*values_double)(const ValueBlock<double>&);
  // row[i] = e^(row[i] - shift); differences below -86 count as -86.
  void (*exp)(float* row, size_t count, float shift, ExpKind kind);
  float (*sum)(const float* row, size_t count);
  float (*sum_squares)(const float* row, size_t count);
  float (*dot)(const float* a, const float* b, size_t count);
  // out[i] = silu(gate[i]) * up[i]. Fused: gate * up / (1 + e^-gate); unfused: the sigmoid, the
  // SiLU and the product are rounded one by one. `out` may be `gate`.
  void (*gate)(const float* gate, const float* up, size_t count, bool fused, ExpKind kind,
               float* out);
};

const RowOps& RowOpsFor(Target target);

}  // namespace kcc
