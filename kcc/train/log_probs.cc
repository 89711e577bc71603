#include "kcc/train/log_probs.h"

#include <algorithm>

#include "kcc/base/check.h"
#include "kcc/lab/logprob.h"
#include "kcc/train/operators.h"

namespace kcc {

std::vector<float> LogProbs::Of(const Tape& tape, std::span<const int32_t> tokens) {
  KCC_CHECK(tokens.size() == tape.head_rows.size());
  std::vector<float> made(tokens.size());
  log_sums_.resize(tokens.size());
  pool_.Run(tokens.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (tokens[i] < 0) continue;
      const RowLogprobs row({&tape.logits[i * vocab_], vocab_});
      made[i] = row.Of(tokens[i]);
      log_sums_[i] = row.log_sum();
    }
  });
  return made;
}

void LogProbs::Gradient(const Tape& tape, std::span<const int32_t> tokens,
                        std::span<const float> weights, size_t stride,
                        std::vector<float>* gradient) const {
  KCC_CHECK(tokens.size() == log_sums_.size() && weights.size() == tokens.size());
  gradient->resize(tokens.size() * stride);
  const RowOps& ops = RowOpsFor(target_);
  pool_.Run(tokens.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      float* row = gradient->data() + i * stride;
      std::fill(row, row + stride, 0.0f);
      if (tokens[i] < 0 || weights[i] == 0) continue;
      LogProbBackward({&tape.logits[i * vocab_], vocab_}, log_sums_[i], tokens[i], weights[i], ops,
                      row);
    }
  });
}

}  // namespace kcc
