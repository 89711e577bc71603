#include "kcc/train/operators.h"

#include <algorithm>
#include <cmath>

namespace kcc {

// With r = 1 / rms(x) and n elements: dx_i = r gain_i dy_i - x_i r^3 / n sum_j gain_j dy_j x_j.
float NormBackward(std::span<const float> x, std::span<const float> gain, double eps,
                   const float* dy, bool add, const RowOps& ops, float* dx) {
  const size_t n = x.size();
  const float mean = ops.sum_squares(x.data(), n) / static_cast<float>(n);
  const float inverse = 1.0f / std::sqrt(mean + static_cast<float>(eps));
  constexpr size_t kPart = 256;  // at a time, so that nothing is allocated for a row
  float products[kPart];
  float sum = 0;
  for (size_t begin = 0; begin < n; begin += kPart) {
    const size_t count = std::min(kPart, n - begin);
    for (size_t i = 0; i < count; ++i) products[i] = gain[begin + i] * dy[begin + i];
    sum += ops.dot(products, x.data() + begin, count);
  }
  const float along = inverse * inverse * inverse * sum / static_cast<float>(n);
  if (add) {
    for (size_t i = 0; i < n; ++i) dx[i] += inverse * (gain[i] * dy[i]) - along * x[i];
  } else {
    for (size_t i = 0; i < n; ++i) dx[i] = inverse * (gain[i] * dy[i]) - along * x[i];
  }
  return inverse;
}

// With s = sigmoid(gate): dgate = dy up s (1 + gate (1 - s)), dup = dy gate s.
void GateBackward(std::span<const float> gate, std::span<const float> up, const float* dy,
                  const RowOps& ops, float* dgate, float* dup) {
  const size_t n = gate.size();
  for (size_t i = 0; i < n; ++i) dup[i] = -gate[i];
  ops.exp(dup, n, 0.0f, ExpKind::kAccurate);
  for (size_t i = 0; i < n; ++i) {
    const float sigmoid = 1.0f / (1.0f + dup[i]);
    dgate[i] = dy[i] * up[i] * (sigmoid * (1.0f + gate[i] * (1.0f - sigmoid)));
    dup[i] = dy[i] * (gate[i] * sigmoid);
  }
}

// weight (1[v = token] - p_v).
void LogProbBackward(std::span<const float> logits, double log_sum, int32_t token, float weight,
                     const RowOps& ops, float* gradient) {
  const size_t n = logits.size();
  for (size_t v = 0; v < n; ++v) {
    gradient[v] = static_cast<float>(static_cast<double>(logits[v]) - log_sum);
  }
  ops.exp(gradient, n, 0.0f, ExpKind::kAccurate);
  for (size_t v = 0; v < n; ++v) gradient[v] *= -weight;
  gradient[static_cast<size_t>(token)] += weight;
}

}  // namespace kcc
