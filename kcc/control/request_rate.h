// Requests a second, over about the last ten seconds.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

namespace kcc {

class RequestRate {
 public:
  void Take(double at_s, uint64_t came) {
    const std::lock_guard lock(mutex_);
    samples_.emplace_back(at_s, came);
    while (samples_.size() > 2 && samples_.back().first - samples_[1].first >= kSpanS) {
      samples_.pop_front();
    }
  }
  double PerSecond() const {
    const std::lock_guard lock(mutex_);
    if (samples_.size() < 2) return 0;
    const double span = samples_.back().first - samples_.front().first;
    const uint64_t came = samples_.back().second - samples_.front().second;
    return span > 0 ? static_cast<double>(came) / span : 0;
  }

 private:
  static constexpr double kSpanS = 10;
  mutable std::mutex mutex_;
  std::deque<std::pair<double, uint64_t>> samples_;
};

}  // namespace kcc
