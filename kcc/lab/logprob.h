// Log-probs of a row of logits, as the lab's traces and its server give them: computed in double
// from the logits that are stored, so that a reader who computes them again finds the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kcc {

class RowLogprobs {
 public:
  // The row outlives the object. One pass over it.
  explicit RowLogprobs(std::span<const float> logits);

  // At most 0: rounding may take the log-prob of a certain token past it, and evidence above 0 is
  // refused.
  float Of(int32_t token) const;
  double log_sum() const { return top_ + log_sum_; }  // log sum e^logit

 private:
  std::span<const float> logits_;
  double top_ = 0;
  double log_sum_ = 0;  // of exp(logit - top)
};

}  // namespace kcc
