// Whether logits stand at the tokens they predict. A forward pass gives at index t the logits of
// token t + 1, and forgetting that is the commonest fault of recorded evidence. Looks at the first
// rows only.
//
// Two signs: a recorded log-prob that another row's logits give but this row's do not; and tokens
// that the row before (or after) finds likely while their own row finds them absurd.
#pragma once

#include <cstdint>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/trace/trace.h"

namespace kcc {

class AlignmentCheck {
 public:
  // Without `compare_logprobs` a log-prob beside the logits is not held against them (it is of
  // other semantics).
  AlignmentCheck(int64_t vocab_size, bool compare_logprobs)
      : vocab_size_(vocab_size), compare_logprobs_(compare_logprobs) {}

  // Rows of a request must come in order of position.
  void Add(const TokenEvidence& token);

  Result<> Check() const;

 private:
  struct Row {
    int32_t request = -1;
    int32_t position = -1;
    int32_t token = -1;
    double logprob = 0;
    std::vector<float> logprobs;  // of the whole vocabulary
  };
  struct Mean {
    double sum = 0;
    int64_t count = 0;
    void Add(double value) {
      sum += value;
      ++count;
    }
    double value() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
  };

  int64_t vocab_size_;
  bool compare_logprobs_;
  int64_t rows_ = 0;
  Row last_;
  Mean own_, from_before_, from_after_;              // log-prob of a token by whose row
  Mean gap_own_, gap_from_before_, gap_from_after_;  // to the recorded log-prob
};

}  // namespace kcc
