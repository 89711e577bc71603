// The scheduler: which tokens of which sequences make up the next step.
//
// Continuous batching: sequences join and leave between steps; a prompt is computed in chunks
// beside the decoding of others. When the KV cache is full, the sequence that arrived last gives
// its blocks back and is computed again from its tokens when there is room. Pure bookkeeping:
// it computes nothing and knows no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/lab/audit.h"
#include "kcc/lab/kv_cache.h"
#include "kcc/lab/switches.h"

namespace kcc {

// Sequence::variant_from of a sequence that never takes the other kernel variant.
inline constexpr size_t kNoVariant = std::numeric_limits<size_t>::max();

struct Sequence {
  size_t request = 0;  // index in the batch; lower arrived earlier
  std::vector<int32_t> tokens;
  std::vector<int32_t> rope_positions;  // of RoPE, for each token; empty: those of the sequence
  size_t prompt = 0;                    // tokens that may be computed in chunks from the start
  bool one_by_one = false;  // beyond the prompt, one token a step (decode path, generation)
  bool open_ended = false;  // tokens are appended as they are sampled
  size_t computed = 0;      // tokens whose keys are in the cache
  size_t emitted = 0;       // tokens whose logits were handed out, or are never wanted
  size_t variant_from = kNoVariant;  // position from which the other kernel variant is taken
  AuditTrail* audit = nullptr;       // may be null
  BlockTable table;
  size_t preemptions = 0;

  bool done() const { return computed >= tokens.size() && !open_ended; }
};

struct ScheduledRun {
  Sequence* sequence = nullptr;
  size_t tokens = 0;
};

struct SchedulerLimits {
  size_t chunk = 256;
  size_t concurrency = 16;
  size_t step_tokens = 512;

  static SchedulerLimits Of(const LabSwitches& switches) {
    return {switches.chunk, switches.concurrency, switches.chunk + switches.concurrency};
  }
};

class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, KvCache* cache) : limits_(limits), cache_(cache) {}

  // Sequences must outlive the scheduler; the order of adding is the order of arrival.
  void Add(Sequence* sequence) { waiting_.push_back(sequence); }
  bool idle() const { return waiting_.empty() && running_.empty(); }
  size_t running() const { return running_.size(); }
  size_t waiting() const { return waiting_.size(); }
  uint64_t preemptions() const { return preemptions_; }

  // The next step's runs, blocks reserved; fails if one sequence alone does not fit the cache.
  Result<std::vector<ScheduledRun>> Next();
  // Takes sequences that are done out and gives their blocks back.
  void Retire();
  // Takes one out that is not done, wherever it is: nobody wants it any more. Between steps.
  void Remove(Sequence* sequence);

 private:
  size_t Wanted(const Sequence& sequence) const;
  bool Preempt(const Sequence* keep);

  SchedulerLimits limits_;
  KvCache* cache_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // by arrival
  uint64_t preemptions_ = 0;
};

}  // namespace kcc
