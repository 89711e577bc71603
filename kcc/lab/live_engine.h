// The engine for requests that come and go: sequences join and leave between steps, and share one
// KV cache and the steps, as on a server. Engine is the same for a batch that is known beforehand.
//
// Used from one thread. In batch-invariant mode the bits of a sequence do not depend on its
// company, as in Engine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kcc/base/result.h"
#include "kcc/lab/fork_join.h"
#include "kcc/lab/kv_cache.h"
#include "kcc/lab/lab_model.h"
#include "kcc/lab/scheduler.h"
#include "kcc/lab/stepper.h"
#include "kcc/lab/switches.h"

namespace kcc {

class LiveEngine {
 public:
  // The model, made for these switches, and the pool outlive the engine. `cache_tokens` is the
  // capacity of the KV cache, all of which is allocated here.
  LiveEngine(const LabModel& model, const LabSwitches& switches, size_t cache_tokens,
             ForkJoin& pool);

  // The sequence lives until it is done or removed. Precondition: its tokens are in the vocabulary,
  // and all that it can grow to fit `capacity_tokens`.
  void Add(std::string_view request_id, Sequence* sequence);
  // Of a sequence that has not been done yet.
  void Remove(Sequence* sequence) { scheduler_.Remove(sequence); }

  // One step of everything that runs. A sequence that is done afterwards is no longer the engine's.
  Result<> Step(const RowSink& sink);

  bool idle() const { return scheduler_.idle(); }
  size_t running() const { return scheduler_.running(); }
  size_t waiting() const { return scheduler_.waiting(); }
  uint64_t preemptions() const { return scheduler_.preemptions(); }
  size_t capacity_tokens() const { return cache_.blocks() * cache_.page(); }
  size_t cache_bytes() const { return cache_.blocks() * cache_.block_bytes(); }
  double cache_usage() const {
    return 1 - static_cast<double>(cache_.free_blocks()) / static_cast<double>(cache_.blocks());
  }

 private:
  LabSwitches switches_;
  Stepper stepper_;
  KvCache cache_;
  Scheduler scheduler_;
  size_t arrivals_ = 0;
};

}  // namespace kcc
