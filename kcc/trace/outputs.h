// What two generated traces wrote for the same requests, token by token.
#pragma once

#include <cstdint>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/trace/pairing.h"

namespace kcc {

struct OutputComparison {
  // False where the rows do not settle it: a side has none, or fewer than its output_tokens claims
  // and all of them agree, or the sides do not agree where the output begins, or infer has rows
  // before it that train has not alike, or a side failed or timed out before they differ.
  bool known = false;
  bool same = false;
  int64_t common = 0;  // tokens before the first that differs
};

// By request of the pairing. Output tokens are those from the train side's prompt_tokens on, masked
// ones included. Reads the index columns of both traces. Precondition: generated traces.
Result<std::vector<OutputComparison>> CompareOutputs(const PairedTraces& pair);

}  // namespace kcc
