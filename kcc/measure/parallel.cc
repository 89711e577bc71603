#include "kcc/measure/parallel.h"

#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace kcc {

void ParallelFor(size_t parts, const std::function<void(size_t part)>& work) {
  if (parts == 0) return;
  if (parts == 1) return work(0);
  // All memory is taken before the first thread starts: from then on nothing here may throw, since
  // a thread that is not joined ends the process.
  std::vector<std::exception_ptr> thrown(parts);
  std::vector<std::thread> threads;
  threads.reserve(parts);
  const auto run = [&](size_t part) noexcept {
    try {
      work(part);
    } catch (...) {
      thrown[part] = std::current_exception();
    }
  };
  size_t started = 1;
  for (; started < parts; ++started) {
    try {
      threads.emplace_back(run, started);
    } catch (const std::exception&) {  // no thread to be had, or no memory for one
      break;
    }
  }
  run(0);
  for (size_t part = started; part < parts; ++part) run(part);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

}  // namespace kcc
