// ForkJoin: a few threads that do one job together and meet at its end.
//
// Work is cut by index into contiguous parts, one a thread, before any of them starts, so what is
// computed depends on the number of threads alone. Which thread takes a part does not matter: each
// takes the next one that is left. So where the other cores are busy with something else, the
// caller does the work of a thread that has not come, and does not wait for it. Waiting threads
// spin briefly, since a decode step forks every few microseconds, and then sleep. Run is called
// from one thread at a time. Where a thread cannot be started there are fewer of them: slower, with
// the same result.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kcc {

class ForkJoin {
 public:
  explicit ForkJoin(size_t threads);
  ~ForkJoin();
  ForkJoin(const ForkJoin&) = delete;
  ForkJoin& operator=(const ForkJoin&) = delete;

  size_t threads() const { return workers_.size() + 1; }

  // Calls job(begin, end) for contiguous parts of [0, count), one a thread, and waits for all. An
  // exception thrown by a part is thrown again here after all have ended; of several, that of the
  // lowest part.
  void Run(size_t count, const std::function<void(size_t begin, size_t end)>& job);

 private:
  void Work();
  void TakeParts();
  void Part(size_t index) noexcept;

  std::vector<std::thread> workers_;
  std::vector<std::exception_ptr> thrown_;  // by part
  std::atomic<bool> any_thrown_{false};
  const std::function<void(size_t, size_t)>* job_ = nullptr;
  size_t count_ = 0;
  // The round in the upper half, the next part of it that nobody has taken in the lower one. A part
  // is taken by adding 1. Whoever succeeds has seen what Run wrote for this very round, and Run
  // does not return before the part is done; so a thread that comes late finds no part, or one of
  // the round that is under way, and never the job of a round that is over.
  std::atomic<uint64_t> state_{0};
  std::atomic<size_t> pending_{0};  // parts of the round that are not done
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace kcc
