#include "kcc/serve/stop_signals.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "kcc/base/check.h"

namespace kcc {
namespace {

std::atomic<int> counter_fd{-1};
static_assert(std::atomic<int>::is_always_lock_free);  // a handler reads it

extern "C" void CountSignal(int) {
  const int before = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(counter_fd.load(), &one, sizeof one);
  errno = before;
}

}  // namespace

Result<> StopSignals::Start() {
  KCC_CHECK(counter_fd.load() < 0);
  FileDescriptor counter(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (counter.get() < 0) {
    return IoError("signals cannot be waited for: " + std::string(std::strerror(errno)));
  }
  counter_ = std::move(counter);
  counter_fd.store(counter_.get());
  struct sigaction action {};
  action.sa_handler = CountSignal;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
  return {};
}

StopSignals::~StopSignals() {
  if (counter_.get() < 0) return;  // was not started
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  counter_fd.store(-1);
}

uint64_t StopSignals::Take() {
  uint64_t count = 0;
  return ::read(counter_.get(), &count, sizeof count) == sizeof count ? count : 0;
}

}  // namespace kcc
