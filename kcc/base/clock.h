// Time enters only through this interface, so that reports carry no clock unless asked and tests
// own the time they run in.
#pragma once

#include <chrono>
#include <cstdint>

namespace kcc {

class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds since the Unix epoch.
  virtual int64_t NowMs() const = 0;
  // Seconds from an arbitrary origin; never goes back.
  virtual double MonotonicSeconds() const = 0;
};

class SystemClock final : public Clock {
 public:
  int64_t NowMs() const override {
    using std::chrono::duration_cast;
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return duration_cast<std::chrono::milliseconds>(since_epoch).count();
  }
  double MonotonicSeconds() const override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  }
};

// Where nobody hands in another.
inline const Clock& TheSystemClock() {
  static const SystemClock clock;
  return clock;
}

// Stands still until a test moves it.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t now_ms = 0) : now_ms_(now_ms) {}
  int64_t NowMs() const override { return now_ms_; }
  double MonotonicSeconds() const override { return static_cast<double>(now_ms_) / 1000.0; }
  void AdvanceMs(int64_t by_ms) { now_ms_ += by_ms; }

 private:
  int64_t now_ms_;
};

}  // namespace kcc
