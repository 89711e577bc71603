// Fuzzed bytes as a file that functions which take a path can open, without touching a disk.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "kcc/base/check.h"

namespace kcc {

class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    KCC_CHECK(descriptor_ >= 0);
    while (size > 0) {
      const ssize_t n = ::write(descriptor_, data, size);
      KCC_CHECK(n > 0);
      data += n;
      size -= static_cast<size_t>(n);
    }
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace kcc
