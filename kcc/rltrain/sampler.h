// Answers of a policy: a kernel of the lab that generates with weights that change.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/engine.h"
#include "kcc/lab/lab_model.h"
#include "kcc/rltrain/task.h"

namespace kcc {

// A problem to be answered. The id decides the random numbers, and the replica where the switch
// `route` asks for one.
struct AskedProblem {
  const TaskProblem* problem = nullptr;
  std::string id;
};

struct SampledAnswer {
  const TaskProblem* problem = nullptr;
  std::string id;
  std::vector<int32_t> tokens;  // prompt and answer
  size_t prompt = 0;
  std::vector<float> log_probs;  // of the answer's tokens, by the kernel that sampled
  double reward = 0;

  size_t output_tokens() const { return tokens.size() - prompt; }
};

class Sampler {
 public:
  static Result<std::unique_ptr<Sampler>> Make(const Checkpoint& checkpoint,
                                               const LabSwitches& switches, const RlTask& task);

  void SetWeights(const ModelWeights& weights) { model_.SetWeights(weights, switches_); }
  const std::string& fingerprint() const { return fingerprint_; }

  // Temperature 1, from the whole distribution; or 0, greedily.
  Result<std::vector<SampledAnswer>> Answer(std::span<const AskedProblem> asked, double temperature,
                                            uint64_t seed);

 private:
  Sampler(LabModel model, const LabSwitches& switches, const RlTask& task);

  LabModel model_;
  LabSwitches switches_;
  const RlTask& task_;
  std::string fingerprint_;
  Engine engine_;
};

}  // namespace kcc
