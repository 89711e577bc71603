// What a new libstdc++ asks of glibc, and an older glibc lacks (cmake/portable.cmake). Hidden, so
// that nobody else's code sees it.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#pragma GCC visibility push(hidden)
extern "C" {

// Since glibc 2.32 this says whether the process has one thread, so that shared_ptr may count
// without atomics. 0 means that there may be more, which is always right.
char __libc_single_threaded = 0;

// Since glibc 2.36; std::random_device names it, which kcc does not use but other parts of
// libstdc++ link to.
uint32_t arc4random(void) noexcept {
  uint32_t value = 0;
  if (::getentropy(&value, sizeof value) != 0) std::abort();
  return value;
}
}
#pragma GCC visibility pop
