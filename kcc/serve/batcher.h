// Continuous batching across connections: one thread that owns the engines and steps whatever is
// running, while requests come in and leave from other threads.
//
// There is one engine for the kernel that is served, and one more for each other set of switches
// that a fault asks for. They share the threads; each has its own KV cache.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/fork_join.h"
#include "kcc/lab/lab_model.h"
#include "kcc/lab/live_engine.h"
#include "kcc/lab/switches.h"
#include "kcc/serve/sequence_ask.h"

namespace kcc {

inline constexpr size_t kEnginesMax = 8;

// What runs at the moment, for metrics.
struct BatcherState {
  size_t running = 0;
  size_t waiting = 0;
  double cache_usage = 0;  // of the engine that is served, 0 to 1
  uint64_t preemptions = 0;
};

class Batcher {
 public:
  // Engine 0 has these switches; `cache_tokens` is the capacity of its KV cache. The checkpoint
  // outlives the batcher.
  static Result<std::unique_ptr<Batcher>> Open(const Checkpoint& checkpoint,
                                               const LabSwitches& switches, size_t cache_tokens);
  // Ends the thread; requests that are left hear nothing more.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // All functions below may be called from any thread, EngineFor from one at a time.

  // The engine for these switches, made if there is none: this takes as long as packing the
  // weights. Fails where the model cannot run with them, and beyond kEnginesMax.
  Result<size_t> EngineFor(const LabSwitches& switches);
  const LabModel& model() const { return served_->model; }
  size_t cache_bytes() const { return served_->live.cache_bytes(); }

  // Precondition: every ask fits the model and its cache. The listener is destroyed, on the
  // batcher's thread, when all of its sequences have ended. Returns a number for Cancel.
  uint64_t Submit(size_t engine, std::vector<SequenceAsk> asks,
                  std::unique_ptr<SequenceListener> listener);
  // The request's sequences leave before the next step and its listener hears no more.
  void Cancel(uint64_t ticket);

  BatcherState state() const;

 private:
  struct EngineSlot;
  struct LiveSequence;
  struct Job;
  struct EngineSlot {
    EngineSlot(LabModel made, const LabSwitches& with, size_t cache_tokens, ForkJoin& pool)
        : model(std::move(made)), live(model, with, cache_tokens, pool) {}
    LabModel model;
    LiveEngine live;
    std::vector<LiveSequence*> sequences;  // that the live engine has
  };

  Batcher(const Checkpoint& checkpoint, size_t threads);
  Result<> AddEngine(const LabSwitches& switches, size_t cache_tokens);
  void Work();
  void Admit(Job* job);
  void FailEverything();
  void Drop(uint64_t ticket);
  void StepAll();
  void Step(EngineSlot* slot);
  Result<> OnRow(LiveSequence* sequence, size_t position, std::span<const float> logits);
  void GiveToken(LiveSequence* sequence, TokenRecord record);
  void End(LiveSequence* sequence, FinishReason reason, std::optional<int32_t> end);
  void FailAll(EngineSlot* slot, const Error& error);
  void Sweep();
  void Publish();

  const Checkpoint& checkpoint_;
  ForkJoin pool_;
  EngineSlot* served_ = nullptr;
  std::thread thread_;

  mutable std::mutex mutex_;  // of what follows, up to the blank line
  std::condition_variable wake_;
  std::vector<std::unique_ptr<EngineSlot>> engines_;  // grows, never shrinks
  std::vector<std::string> engine_switches_;
  std::vector<std::unique_ptr<Job>> inbox_;
  std::vector<uint64_t> cancelled_;
  BatcherState state_;
  uint64_t tickets_ = 0;
  bool stop_ = false;

  // Of the thread alone.
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<EngineSlot*> slots_;  // as far as the thread knows them
  std::vector<float> changed_;      // a row of logits under a fault
};

}  // namespace kcc
