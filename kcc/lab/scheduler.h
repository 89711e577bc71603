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
#include <vector>

#include "kcc/base/result.h"
#include "kcc/lab/kv_cache.h"

namespace kcc {

struct Sequence {
  size_t request = 0;  // index in the batch; lower arrived earlier
  std::vector<int32_t> tokens;
  size_t prompt = 0;        // tokens that may be computed in chunks from the start
  bool one_by_one = false;  // beyond the prompt, one token a step (decode path, generation)
  bool open_ended = false;  // tokens are appended as they are sampled
  size_t computed = 0;      // tokens whose keys are in the cache
  size_t emitted = 0;       // tokens whose logits were handed out, or are never wanted
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
};

class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, KvCache* cache) : limits_(limits), cache_(cache) {}

  // Sequences must outlive the scheduler; the order of adding is the order of arrival.
  void Add(Sequence* sequence) { waiting_.push_back(sequence); }
  bool idle() const { return waiting_.empty() && running_.empty(); }
  size_t running() const { return running_.size(); }
  uint64_t preemptions() const { return preemptions_; }

  // The next step's runs, blocks reserved; fails if one sequence alone does not fit the cache.
  Result<std::vector<ScheduledRun>> Next();
  // Takes sequences that are done out and gives their blocks back.
  void Retire();

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
