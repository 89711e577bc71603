#include "kcc/lab/logprob.h"

#include <algorithm>

#include "kcc/numeric/double_math.h"

namespace kcc {

RowLogprobs::RowLogprobs(std::span<const float> logits) : logits_(logits) {
  top_ = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += Exp(static_cast<double>(logit) - top_);
  log_sum_ = Log(sum);
}

float RowLogprobs::Of(int32_t token) const {
  const double own = static_cast<double>(logits_[static_cast<size_t>(token)]) - top_;
  return std::min(0.0f, static_cast<float>(own - log_sum_));
}

}  // namespace kcc
