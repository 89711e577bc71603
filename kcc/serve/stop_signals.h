// SIGTERM and SIGINT as something to wait for beside connections: their handler adds to an eventfd.
//
// Not asio::signal_set. Where memory runs out while the service behind it is made, the service is
// freed and stays in a list of the process, which the next one walks (Boost 1.74,
// signal_set_service::add_service). Nothing here takes memory but for an error's words.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>

#include "kcc/base/descriptor.h"
#include "kcc/base/result.h"

namespace kcc {

// One at a time in a process, since a handler reaches nothing but globals.
class StopSignals {
 public:
  StopSignals() = default;
  // The signals do again what they did before.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From now on the signals are counted and do nothing else. Called once. Fails where no descriptor
  // is free.
  Result<> Start();
  // Readable while a signal has not been taken.
  int fd() const { return counter_.get(); }
  // How many came since the last call. Does not wait.
  uint64_t Take();

 private:
  static constexpr std::array<int, 2> kSignals = {SIGTERM, SIGINT};

  FileDescriptor counter_;
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace kcc
