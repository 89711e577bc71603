#include "kcc/lab/fork_join.h"

#include <algorithm>
#include <utility>

namespace kcc {
namespace {

constexpr int kSpins = 4000;
constexpr int kRoundShift = 32;
constexpr uint64_t kPartMask = (uint64_t{1} << kRoundShift) - 1;

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
      workers_.emplace_back([this] { Work(); });
    } catch (const std::exception&) {  // no thread to be had, or no memory for one
      break;
    }
  }
}

ForkJoin::~ForkJoin() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true);
    // A round without a part: a thread that still looks for more of the last one finds none.
    state_.store(((state_.load() | kPartMask) + 1) | kPartMask);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ForkJoin::Part(size_t index) noexcept {
  const size_t begin = count_ * index / threads();
  const size_t end = count_ * (index + 1) / threads();
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
  // Written before the round begins, and read only by those that took a part of it.
  job_ = &job;
  count_ = count;
  pending_.store(threads(), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);  // so that no worker misses the wake-up
    state_.store((state_.load(std::memory_order_relaxed) | kPartMask) + 1,
                 std::memory_order_release);
  }
  wake_.notify_all();
  TakeParts();
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

void ForkJoin::TakeParts() {
  uint64_t state = state_.load(std::memory_order_acquire);
  while ((state & kPartMask) < threads()) {
    if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      continue;  // `state` is the present one now
    }
    Part(state & kPartMask);
    pending_.fetch_sub(1, std::memory_order_release);
    state = state_.load(std::memory_order_acquire);
  }
}

void ForkJoin::Work() {
  uint64_t seen = 0;  // the last round in which nothing was left
  const auto round = [&] { return state_.load(std::memory_order_acquire) >> kRoundShift; };
  for (;;) {
    for (int spin = 0; spin < kSpins && round() == seen; ++spin) Pause();
    if (round() == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return round() != seen; });
    }
    // The round first: the end comes with one of its own. A round that is seen after `stop_` was
    // looked at may be the end's, and no other would ever wake this thread.
    seen = round();
    if (stop_.load()) return;
    TakeParts();
  }
}

}  // namespace kcc
