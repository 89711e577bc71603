// Memory for one handler of Asio's, taken before it is needed: what is posted with it takes none,
// and cannot fail where memory has run out. Knows nothing of Asio but what it asks of allocators.
#pragma once

#include <cstddef>

#include "kcc/base/check.h"

namespace kcc {

struct ReservedMemory {
  static constexpr size_t kBytes = 160;
  alignas(std::max_align_t) std::byte bytes[kBytes];
};

// Gives out the memory once at a time. The memory outlives it.
template <class T>
class ReservedAllocator {
 public:
  using value_type = T;

  explicit ReservedAllocator(ReservedMemory* memory) : memory_(memory) {}
  template <class U>
  ReservedAllocator(const ReservedAllocator<U>& other) : memory_(other.memory()) {}  // NOLINT
  T* allocate(size_t count) {
    static_assert(sizeof(T) <= ReservedMemory::kBytes && alignof(T) <= alignof(std::max_align_t));
    KCC_CHECK(count == 1);
    return reinterpret_cast<T*>(memory_->bytes);
  }
  void deallocate(T*, size_t) {}
  ReservedMemory* memory() const { return memory_; }
  template <class U>
  bool operator==(const ReservedAllocator<U>& other) const {
    return memory_ == other.memory();
  }

 private:
  ReservedMemory* memory_;
};

// As a handler names it, before it is known for what.
template <>
class ReservedAllocator<void> {
 public:
  using value_type = void;

  explicit ReservedAllocator(ReservedMemory* memory) : memory_(memory) {}
  template <class U>
  ReservedAllocator(const ReservedAllocator<U>& other) : memory_(other.memory()) {}  // NOLINT
  ReservedMemory* memory() const { return memory_; }
  template <class U>
  bool operator==(const ReservedAllocator<U>& other) const {
    return memory_ == other.memory();
  }

 private:
  ReservedMemory* memory_;
};

}  // namespace kcc
