// A file descriptor with one owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace kcc {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  // close() reports the last write error on some file systems, so a writer must look at it.
  bool Close() { return ::close(Release()) == 0; }

 private:
  int fd_;  // -1: none
};

}  // namespace kcc
