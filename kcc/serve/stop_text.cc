#include "kcc/serve/stop_text.h"

#include <algorithm>
#include <utility>

namespace kcc {
namespace {

// The longest end of the text with which the stop may begin.
size_t Overlap(std::string_view text, std::string_view stop) {
  size_t length = std::min(text.size(), stop.size() - 1);
  while (length > 0 && !stop.starts_with(text.substr(text.size() - length))) --length;
  return length;
}

}  // namespace

std::string StopText::Push(std::string_view piece) {
  if (found_) return {};
  held_ += piece;
  // The stop that is complete first, so that it does not matter in which pieces the text comes; of
  // two with one end, the longer.
  size_t first = 0;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos || at + stop.size() > end) continue;
    if (at + stop.size() == end && at >= first) continue;
    first = at;
    end = at + stop.size();
    found_ = stop;
  }
  if (found_) {
    std::string given = held_.substr(0, first + (keep_ ? found_->size() : 0));
    held_.clear();
    return given;
  }
  size_t hold = 0;
  for (const std::string& stop : stops_) hold = std::max(hold, Overlap(held_, stop));
  std::string given = held_.substr(0, held_.size() - hold);
  held_.erase(0, given.size());
  return given;
}

std::string StopText::Finish() { return std::exchange(held_, ""); }

}  // namespace kcc
