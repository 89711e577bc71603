#include "kcc/lab/live_engine.h"

#include <algorithm>

namespace kcc {

LiveEngine::LiveEngine(const LabModel& model, const LabSwitches& switches, size_t cache_tokens,
                       ForkJoin& pool)
    : switches_(switches),
      stepper_(model, switches_, pool),
      cache_(model.config, switches.kv, switches.page,
             std::max<size_t>(1, cache_tokens / switches.page)),
      scheduler_(SchedulerLimits::Of(switches), &cache_) {}

void LiveEngine::Add(std::string_view request_id, Sequence* sequence) {
  sequence->request = arrivals_++;
  sequence->variant_from = stepper_.VariantFrom(request_id);
  scheduler_.Add(sequence);
}

Result<> LiveEngine::Step(const RowSink& sink) {
  KCC_TRY(const std::vector<ScheduledRun> runs, scheduler_.Next());
  KCC_TRY_VOID(stepper_.Step(runs, &cache_, sink));
  scheduler_.Retire();
  return {};
}

}  // namespace kcc
