#include "kcc/lab/scheduler.h"

#include <algorithm>

namespace kcc {

size_t Scheduler::Wanted(const Sequence& sequence) const {
  const size_t left = sequence.tokens.size() - sequence.computed;
  // What has been emitted before a preemption is recomputed in chunks too.
  const size_t chunked = std::max(sequence.prompt, sequence.emitted);
  if (!sequence.one_by_one) return std::min(left, limits_.chunk);
  if (sequence.computed >= chunked) return std::min<size_t>(left, 1);
  return std::min({left, limits_.chunk, chunked - sequence.computed});
}

// The sequence that arrived last goes back to the front of the queue; false if it is `keep`.
bool Scheduler::Preempt(const Sequence* keep) {
  Sequence* victim = running_.back();
  if (victim == keep) return false;
  running_.pop_back();
  cache_->Release(&victim->table);
  victim->computed = 0;
  ++victim->preemptions;
  ++preemptions_;
  waiting_.push_front(victim);
  return true;
}

// Invariants between steps: running_ and waiting_ are in order of arrival, and whatever runs
// arrived before whatever waits; a sequence that runs has blocks for its `computed` tokens; one
// that waits has no block and has computed nothing.
//
// A sequence takes blocks from later ones only, so the earliest always gets on, and no two can wait
// for each other. Example: of 4 blocks, A has 2 and B, which came later, has 2. A needs a third. B
// goes back to the queue, A takes its blocks, and B is computed again from its first token once
// there is room for it.
Result<std::vector<ScheduledRun>> Scheduler::Next() {
  std::vector<ScheduledRun> runs;
  const uint64_t preemptions_before = preemptions_;
  size_t budget = limits_.step_tokens;
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence* sequence = running_[i];
    const size_t count = std::min(Wanted(*sequence), budget);
    if (count == 0) continue;
    bool fits = cache_->Reserve(sequence->computed + count, &sequence->table);
    // The victim stands behind `sequence` in running_, so it is not yet among this step's runs.
    while (!fits && Preempt(sequence)) {
      fits = cache_->Reserve(sequence->computed + count, &sequence->table);
    }
    if (!fits) {
      // It is the last one itself: it waits for the others, or does not fit at all.
      if (running_.size() == 1 && runs.empty()) {
        return InvalidError("a request of " + std::to_string(sequence->tokens.size()) +
                            " tokens does not fit a KV cache of " +
                            std::to_string(cache_->blocks() * cache_->page()) +
                            " tokens; raise kv_tokens");
      }
      Preempt(nullptr);
      break;
    }
    runs.push_back({sequence, count});
    budget -= count;
  }
  // Newcomers only while nobody had to leave in this step.
  const bool pressed = preemptions_ != preemptions_before;
  while (!pressed && !waiting_.empty() && running_.size() < limits_.concurrency && budget > 0) {
    Sequence* sequence = waiting_.front();
    const size_t count = std::min(Wanted(*sequence), budget);
    // Beside others it needs room for all it has so far and a block more, not to leave at once.
    if (!running_.empty() &&
        cache_->free_blocks() < cache_->BlocksFor(sequence->tokens.size()) + 1) {
      break;
    }
    if (!cache_->Reserve(count, &sequence->table)) break;
    waiting_.pop_front();
    const auto at = std::lower_bound(
        running_.begin(), running_.end(), sequence,
        [](const Sequence* a, const Sequence* b) { return a->request < b->request; });
    running_.insert(at, sequence);
    runs.push_back({sequence, count});
    budget -= count;
  }
  if (runs.empty() && running_.empty() && !waiting_.empty()) {
    return InvalidError("the KV cache of " + std::to_string(cache_->blocks() * cache_->page()) +
                        " tokens has no room for the next request; raise kv_tokens");
  }
  return runs;
}

void Scheduler::Retire() {
  for (Sequence* sequence : running_) {
    if (sequence->done()) cache_->Release(&sequence->table);
  }
  std::erase_if(running_, [](const Sequence* sequence) { return sequence->done(); });
}

void Scheduler::Remove(Sequence* sequence) {
  cache_->Release(&sequence->table);
  std::erase(running_, sequence);
  std::erase(waiting_, sequence);
}

}  // namespace kcc
