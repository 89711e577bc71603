#include "kcc/lab/fork_join.h"

#include <algorithm>

namespace kcc {
namespace {

constexpr int kSpins = 4000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ForkJoin::ForkJoin(size_t threads) {
  for (size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { Work(i); });
}

ForkJoin::~ForkJoin() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true);
    round_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ForkJoin::Part(size_t index) {
  const size_t begin = count_ * index / parts_;
  const size_t end = count_ * (index + 1) / parts_;
  if (begin < end) (*job_)(begin, end);
}

void ForkJoin::Run(size_t count, const std::function<void(size_t, size_t)>& job) {
  if (count == 0) return;
  if (workers_.empty() || count == 1) return job(0, count);
  job_ = &job;
  count_ = count;
  parts_ = threads();
  pending_.store(workers_.size(), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);  // so that no worker misses the wake-up
    round_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  Part(0);
  for (int spin = 0; pending_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ForkJoin::Work(size_t index) {
  uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && round_.load(std::memory_order_acquire) == seen; ++spin) {
      Pause();
    }
    if (round_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return round_.load(std::memory_order_acquire) != seen; });
    }
    if (stop_.load()) return;
    seen = round_.load(std::memory_order_acquire);
    Part(index);
    pending_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace kcc
