// What a connection has read and nobody has taken yet. Bytes may be taken while a read into it is
// under way: nothing moves but in Prepare, which is called when none is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace kcc {

class ReadBuffer {
 public:
  // An empty buffer keeps no more than this.
  static constexpr size_t kKept = 16 << 10;

  std::string_view bytes() const { return {memory_.get() + begin_, end_ - begin_}; }
  size_t size() const { return end_ - begin_; }
  void Take(size_t count) { begin_ += std::min(count, size()); }
  void TakeAll() { begin_ = end_; }

  // Room behind the bytes for a read; what was prepared before is void.
  std::span<char> Prepare(size_t room) {
    if (begin_ == end_) begin_ = end_ = 0;
    const bool too_large = end_ == 0 && capacity_ > kKept && room <= kKept;
    if (end_ + room > capacity_ || too_large) Move(room);
    return {memory_.get() + end_, room};
  }
  void Commit(size_t count) { end_ += count; }

 private:
  void Move(size_t room) {
    const size_t held = size();
    // The bytes go to the front; memory grows by half as much again where that is not enough.
    if (held + room > capacity_ || held == 0) {
      const size_t capacity = held == 0 ? room : std::max(held + room, capacity_ + capacity_ / 2);
      auto memory = std::make_unique_for_overwrite<char[]>(capacity);
      if (held > 0) std::memcpy(memory.get(), memory_.get() + begin_, held);
      memory_ = std::move(memory);
      capacity_ = capacity;
    } else {
      std::memmove(memory_.get(), memory_.get() + begin_, held);
    }
    begin_ = 0;
    end_ = held;
  }

  std::unique_ptr<char[]> memory_;
  size_t capacity_ = 0;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace kcc
