// One step of the engine: the scheduled runs of tokens through the forward pass, with the split of
// sums that the switches choose, and every row of logits to whoever asked for it.
//
// It knows neither where sequences come from nor what becomes of a row. The batches of Engine and
// the live sequences of LiveEngine are both stepped here, so that they have the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/lab/forward.h"
#include "kcc/lab/lab_model.h"
#include "kcc/lab/scheduler.h"
#include "kcc/lab/switches.h"

namespace kcc {

// The logits that predict `position` of the sequence. Where the sequence is open-ended and
// position is its length, the sink appends the token that it chose, or closes the sequence.
using RowSink =
    std::function<Result<>(Sequence* sequence, size_t position, std::span<const float> logits)>;

class Stepper {
 public:
  // The model, made for these switches, and the pool outlive the stepper.
  Stepper(const LabModel& model, const LabSwitches& switches, ForkJoin& pool,
          Target target = BestTarget());

  // Computes the runs and hands out their rows: those of a sequence by rising position.
  Result<> Step(std::span<const ScheduledRun> runs, KvCache* cache, const RowSink& sink);

  // For Sequence::variant_from. Requests are spread over replicas by the hash of their id, so that
  // a request has one replica wherever it runs.
  size_t VariantFrom(std::string_view request_id) const;

  Forward& forward() { return forward_; }

 private:
  Result<> Compute(std::span<const ScheduledRun> runs, const StepChoice& choice, KvCache* cache,
                   const RowSink& sink);
  StepChoice ChoiceFor(size_t step_tokens, bool variant) const;

  const LabModel& model_;
  const LabSwitches& switches_;
  Forward forward_;
};

}  // namespace kcc
