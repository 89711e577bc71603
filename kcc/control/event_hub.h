// Whoever listens to events of the gateway: browsers and `kcc status`. Any thread may send.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "kcc/gateway/admin_handler.h"

namespace kcc {

class EventHub {
 public:
  static constexpr size_t kListenersMax = 64;

  // False: there are too many already.
  bool Add(std::shared_ptr<EventSink> sink) {
    const std::lock_guard lock(mutex_);
    if (sinks_.size() >= kListenersMax) return false;
    sinks_.push_back(std::move(sink));
    return true;
  }
  // Those that are gone, or too slow, are forgotten.
  void Send(std::string_view event, std::string_view data) {
    const std::lock_guard lock(mutex_);
    std::erase_if(sinks_, [&](const auto& sink) { return !sink->Event(event, data); });
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return sinks_.empty();
  }
  // Sinks belong to the plane: none is kept beyond it.
  void Clear() {
    const std::lock_guard lock(mutex_);
    sinks_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<EventSink>> sinks_;
};

}  // namespace kcc
