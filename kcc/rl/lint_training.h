// Names ways of training on a batch that experiment E3 showed to cost reward, or to destroy the
// policy, at a mismatch of this size (training_evidence.h, docs/results/e3-gpu.md): the rollout's
// log-probs as old ones (bypass), a rejection threshold inside what the kernel always does, and old
// log-probs of a kernel other than the trained one.
//
// Each compares the batch with what E3 measured, on one task and model. Below the smallest mismatch
// of E3 nothing is named as harmful: the answer is a note that E3 says nothing there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/lint.h"

namespace kcc {

enum class RlTrainingFault : uint8_t {
  kBypassMismatch,    // bypass, at a mismatch that E3 saw cost reward
  kBelowOwnKernel,    // a rejection that takes more than a tenth for the kernel's own noise
  kOldOfOtherKernel,  // old log-probs are not of the kernel that is trained
};
std::string_view RlTrainingFaultName(RlTrainingFault fault);    // "bypass_mismatch" …
std::string_view RlTrainingFaultAdvice(RlTrainingFault fault);  // what to do, a sentence

struct RlTrainingFinding {
  RlTrainingFault fault = RlTrainingFault::kBypassMismatch;
  bool is_note = false;  // leaves the exit code
  std::string message;
  std::vector<RlEvidence> evidence;
};

struct RlTrainingSettings {
  // The loss takes the rollout's log-probs as old ones. A batch whose old log-probs are those of
  // the rollout says so by itself.
  bool bypass = false;
  RlCorrection correction;
};

Result<std::vector<RlTrainingFinding>> LintTraining(const RlBatch& batch,
                                                    const RlTrainingSettings& settings,
                                                    int threads = 1);

}  // namespace kcc
