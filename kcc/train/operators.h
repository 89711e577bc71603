// The backward passes of the operators besides matrix products and attention: RMSNorm, SwiGLU, RoPE
// with the norms of heads, and the log-prob of a chosen token.
//
// Each reads what the forward pass read (lab/tape.h) and treats the roundings between operators as
// if they were not there (the straight-through estimator), so that a kernel of any precision has a
// gradient. Arithmetic is float32; sums over a row have the fixed order of RowOps, so every target
// gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kcc/numeric/row_ops.h"

namespace kcc {

// y = x / rms(x) * gain, rms(x) = sqrt(mean(x^2) + eps). Writes dx, or adds to it, and returns 1 /
// rms(x), with which the gain's gradient is the sum of dy x / rms(x) over rows. `dx` may be `dy`,
// unless it is added to.
float NormBackward(std::span<const float> x, std::span<const float> gain, double eps,
                   const float* dy, bool add, const RowOps& ops, float* dx);

// y = gate sigmoid(gate) up. The gradients may overwrite nothing that is read.
void GateBackward(std::span<const float> gate, std::span<const float> up, const float* dy,
                  const RowOps& ops, float* dgate, float* dup);

// d(weight log softmax(logits)[token]) / d logits, written to `gradient`. `log_sum` is log sum
// e^logits.
void LogProbBackward(std::span<const float> logits, double log_sum, int32_t token, float weight,
                     const RowOps& ops, float* gradient);

}  // namespace kcc
