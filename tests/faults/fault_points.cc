#include "tests/faults/fault_points.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

// glibc's own allocator under its other names.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);
}

namespace kcc::faults {
namespace {

std::atomic<Fault> armed_fault{Fault::kNone};
std::atomic<bool> armed{false};
std::atomic<bool> failed{false};
std::atomic<int64_t> fail_at{0};
std::atomic<int64_t> allocations{0};
std::atomic<int64_t> threads{0};
std::atomic<int64_t> live{0};

bool AllocationFails() {
  if (!armed.load(std::memory_order_relaxed)) return false;
  const int64_t number = allocations.fetch_add(1) + 1;
  const Fault fault = armed_fault.load();
  const bool fails = (fault == Fault::kOneAllocation && number == fail_at.load()) ||
                     (fault == Fault::kAllocationsFrom && number >= fail_at.load());
  if (!fails) return false;
  failed.store(true);
  errno = ENOMEM;
  return true;
}

bool ThreadFails() {
  if (!armed.load()) return false;
  const int64_t number = threads.fetch_add(1) + 1;
  if (armed_fault.load() != Fault::kThreadsFrom || number < fail_at.load()) return false;
  failed.store(true);
  return true;
}

void* Counted(void* block) {
  if (block != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return block;
}

}  // namespace

std::string_view Name(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "none";
    case Fault::kOneAllocation:
      return "one allocation";
    case Fault::kAllocationsFrom:
      return "allocations from";
    case Fault::kThreadsFrom:
      return "threads from";
  }
  return "";
}

void Arm(Fault fault, int64_t n) {
  armed_fault = fault;
  fail_at = n;
  allocations = 0;
  threads = 0;
  failed = false;
  armed = true;
}

Seen Disarm() {
  armed = false;
  return {allocations, threads, failed};
}

void Pause() { armed = false; }
void Resume() { armed = true; }

int64_t LiveAllocations() { return live; }

}  // namespace kcc::faults

extern "C" {

void* malloc(size_t size) noexcept {
  return kcc::faults::AllocationFails() ? nullptr : kcc::faults::Counted(__libc_malloc(size));
}

void* calloc(size_t count, size_t size) noexcept {
  return kcc::faults::AllocationFails() ? nullptr
                                        : kcc::faults::Counted(__libc_calloc(count, size));
}

void* realloc(void* block, size_t size) noexcept {
  if (kcc::faults::AllocationFails()) return nullptr;
  void* moved = __libc_realloc(block, size);
  if (block == nullptr) return kcc::faults::Counted(moved);
  if (moved == nullptr && size == 0) kcc::faults::live.fetch_sub(1);  // glibc frees it
  return moved;
}

void* memalign(size_t alignment, size_t size) noexcept {
  return kcc::faults::AllocationFails() ? nullptr
                                        : kcc::faults::Counted(__libc_memalign(alignment, size));
}

void* aligned_alloc(size_t alignment, size_t size) noexcept { return memalign(alignment, size); }

int posix_memalign(void** block, size_t alignment, size_t size) noexcept {
  void* made = memalign(alignment, size);
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

void free(void* block) noexcept {
  if (block != nullptr) kcc::faults::live.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(block);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  if (kcc::faults::ThreadFails()) return EAGAIN;
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}

}  // extern "C"
