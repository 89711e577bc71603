// The engine: requests in, logits or continuations out, through the scheduler, the paged cache and
// the forward step.
//
// In batch-invariant mode a request's bits do not depend on the other requests, the order of
// arrival, chunk, page, concurrency, cache size, preemption or threads. With batch=dynamic the
// number of tokens in a step chooses the split of the sums, as real schedulers do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/lab/audit.h"
#include "kcc/lab/forward.h"
#include "kcc/lab/lab_model.h"
#include "kcc/lab/scheduler.h"
#include "kcc/lab/stepper.h"
#include "kcc/lab/switches.h"

namespace kcc {

// The logits that predict `token` at `position` of request `request` of the batch.
using LogitsSink = std::function<Result<>(size_t request, size_t position, int32_t token,
                                          std::span<const float> logits)>;

struct RequestOutcome {
  std::vector<int32_t> output;  // generated tokens
  AuditTrail audit;
  double ttft_ms = 0;
  double latency_ms = 0;
  size_t kv_bytes = 0;
  size_t preemptions = 0;
};

struct EngineStats {
  uint64_t steps = 0;
  uint64_t tokens = 0;  // computed, recomputation included
  uint64_t preemptions = 0;
  size_t peak_bytes = 0;  // weights, cache and working memory
};

class Engine {
 public:
  // The model, made for these switches, and the clock outlive the engine.
  Engine(const LabModel& model, const LabSwitches& switches, const Clock& clock);

  // Fails on token ids outside the vocabulary and on requests beyond the model's positions.
  // Every logits row from the request's prompt_tokens on goes to the sink.
  Result<std::vector<RequestOutcome>> Score(std::span<const KernelRequest> batch,
                                            const LogitsSink& sink);
  // The same for the request's own continuation.
  Result<std::vector<RequestOutcome>> Generate(std::span<const KernelRequest> batch,
                                               const Sampling& sampling, const LogitsSink& sink);

  const EngineStats& stats() const { return stats_; }
  Forward& forward() { return stepper_.forward(); }

 private:
  struct Batch;
  Result<> CheckRequests(std::span<const KernelRequest> batch, size_t extra_tokens) const;
  Result<> Drive(Batch* batch, const LogitsSink& sink);
  Result<> Deliver(Batch* batch, Sequence* sequence, size_t position, std::span<const float> logits,
                   const LogitsSink& sink);
  void Append(Batch* batch, int32_t token, Sequence* sequence);

  const LabModel& model_;
  LabSwitches switches_;
  const Clock& clock_;
  ForkJoin pool_;
  Stepper stepper_;
  EngineStats stats_;
};

}  // namespace kcc
