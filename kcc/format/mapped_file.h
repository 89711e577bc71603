// A file seen through windows: never more than kWindowBytesMax of it is mapped by one window, so
// that a file larger than memory, or than the address space allowed, is read at the speed of the
// disk or of the page cache.
//
// The size is fixed when the file is opened and checked again at every Map, so that a file that
// was truncated since is an error. One that is truncated while a window of it is being read still
// raises SIGBUS: traces are written once, atomically, and not edited in place.
// Thread-safe: several threads may map windows of one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

inline constexpr size_t kWindowBytesMax = size_t{64} << 20;

// Owns a mapping of `size` bytes of a file from `offset` on. Movable; unmaps when destroyed.
class FileWindow {
 public:
  FileWindow() = default;
  FileWindow(FileWindow&& other) noexcept;
  FileWindow& operator=(FileWindow&& other) noexcept;
  ~FileWindow();

  const std::byte* data() const { return data_; }
  int64_t offset() const { return offset_; }
  size_t size() const { return size_; }
  bool Holds(int64_t offset, size_t size) const;
  // The bytes at an offset of the file, which the window must hold.
  const std::byte* At(int64_t offset) const { return data_ + (offset - offset_); }

 private:
  friend class MappedFile;
  void Release();

  std::byte* mapping_ = nullptr;  // page-aligned
  size_t mapping_size_ = 0;
  const std::byte* data_ = nullptr;
  int64_t offset_ = 0;
  size_t size_ = 0;
};

class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }

  // Bytes [offset, offset + size), at most kWindowBytesMax of them, all within the file. The
  // pages that follow are asked for in the background.
  Result<FileWindow> Map(int64_t offset, size_t size) const;

  // The same bytes copied, for headers.
  Result<std::string> Read(int64_t offset, size_t size) const;

 private:
  MappedFile(std::string path, int descriptor, int64_t size);
  Result<> CheckRange(int64_t offset, size_t size) const;

  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace kcc
