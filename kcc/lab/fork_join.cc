#include "kcc/lab/fork_join.h"

#include <algorithm>
#include <utility>

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
  // All memory is taken before the first thread starts: from then on nothing here may throw, since
  // a thread that is not joined ends the process.
  thrown_.resize(std::max<size_t>(1, threads));
  workers_.reserve(thrown_.size() - 1);
  for (size_t i = 1; i < threads; ++i) {
    try {
      workers_.emplace_back([this, i] { Work(i); });
    } catch (const std::exception&) {  // no thread to be had, or no memory for one
      break;
    }
  }
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

void ForkJoin::Part(size_t index) noexcept {
  const size_t begin = count_ * index / parts_;
  const size_t end = count_ * (index + 1) / parts_;
  if (begin >= end) return;
  try {
    (*job_)(begin, end);
  } catch (...) {
    thrown_[index] = std::current_exception();
    any_thrown_.store(true, std::memory_order_relaxed);  // seen with `pending_`
  }
}

void ForkJoin::Run(size_t count, const std::function<void(size_t, size_t)>& job) {
  if (count == 0) return;
  if (workers_.empty() || count == 1) return job(0, count);
  // Workers read these after they have seen round_ rise, so they are written before it rises. The
  // loop below ends when pending_ is 0, so no worker reads them when they are next written.
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
  if (!any_thrown_.load(std::memory_order_relaxed)) return;
  any_thrown_.store(false, std::memory_order_relaxed);
  std::exception_ptr first;
  for (std::exception_ptr& one : thrown_) {
    const std::exception_ptr taken = std::exchange(one, nullptr);
    if (first == nullptr) first = taken;
  }
  std::rethrow_exception(first);
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
