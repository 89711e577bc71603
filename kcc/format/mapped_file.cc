#include "kcc/format/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/base/file.h"

namespace kcc {
namespace {

int64_t PageSize() {
  static const int64_t size = ::sysconf(_SC_PAGESIZE);
  return size;
}

}  // namespace

FileWindow::FileWindow(FileWindow&& other) noexcept { *this = std::move(other); }

FileWindow& FileWindow::operator=(FileWindow&& other) noexcept {
  if (this == &other) return *this;
  Release();
  mapping_ = std::exchange(other.mapping_, nullptr);
  mapping_size_ = std::exchange(other.mapping_size_, 0);
  data_ = std::exchange(other.data_, nullptr);
  offset_ = std::exchange(other.offset_, 0);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

FileWindow::~FileWindow() { Release(); }

// mapping_ is null exactly if there is no window. The other members are then left as they are,
// since Holds asks mapping_ first.
void FileWindow::Release() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_size_);
  mapping_ = nullptr;
}

bool FileWindow::Holds(int64_t offset, size_t size) const {
  return mapping_ != nullptr && offset >= offset_ &&
         offset + static_cast<int64_t>(size) <= offset_ + static_cast<int64_t>(size_);
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  KCC_TRY(FileDescriptor file, OpenRegularFile(path));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return IoError(std::string("cannot open: ") + std::strerror(errno), Place{path});
  }
  return MappedFile(path, file.Release(), info.st_size);
}

MappedFile::MappedFile(std::string path, int descriptor, int64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  if (descriptor_ >= 0) ::close(descriptor_);
  path_ = std::move(other.path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  size_ = other.size_;
  return *this;
}

MappedFile::~MappedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<> MappedFile::CheckRange(int64_t offset, size_t size) const {
  // Ranges come from headers that were checked against size_, so one beyond it is a fault of kcc. A
  // file that has become shorter since is the world's doing, and must be found before mmap: reading
  // a page past the end is SIGBUS.
  KCC_CHECK(offset >= 0 && size <= static_cast<uint64_t>(size_) &&
            offset <= size_ - static_cast<int64_t>(size));
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) {
    return IoError(std::string("cannot read: ") + std::strerror(errno), Place{path_});
  }
  if (info.st_size < size_) {
    return IoError("was truncated while being read: it had " + std::to_string(size_) +
                       " bytes and now has " + std::to_string(info.st_size),
                   Place{path_});
  }
  return {};
}

Result<FileWindow> MappedFile::Map(int64_t offset, size_t size) const {
  KCC_CHECK(size > 0 && size <= kWindowBytesMax);
  KCC_TRY_VOID(CheckRange(offset, size));
  // mmap wants an offset at a page. The mapping starts up to a page early, and data_ points past
  // what was not asked for. Example, with pages of 4096: Map(10000, 500) maps 2308 bytes from 8192
  // on, and data_ is 1808 bytes into them.
  const int64_t skip = offset % PageSize();
  const size_t mapping_size = size + static_cast<size_t>(skip);
  // Populating at once is cheaper than a fault every few pages, and the window will be read whole.
  void* mapping = ::mmap(nullptr, mapping_size, PROT_READ, MAP_SHARED | MAP_POPULATE, descriptor_,
                         offset - skip);
  if (mapping == MAP_FAILED) {
    return IoError("cannot map " + std::to_string(size) + " bytes: " + std::strerror(errno),
                   Place{path_});
  }
  const int64_t next = offset + static_cast<int64_t>(size);
  // Readers go forward: the disk can fetch the next window while this one is computed on.
  if (next < size_) {
    (void)::posix_fadvise(descriptor_, next,
                          std::min<int64_t>(static_cast<int64_t>(size), size_ - next),
                          POSIX_FADV_WILLNEED);
  }
  FileWindow window;
  window.mapping_ = static_cast<std::byte*>(mapping);
  window.mapping_size_ = mapping_size;
  window.data_ = window.mapping_ + skip;
  window.offset_ = offset;
  window.size_ = size;
  return window;
}

Result<std::string> MappedFile::Read(int64_t offset, size_t size) const {
  KCC_TRY_VOID(CheckRange(offset, size));
  std::string bytes(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t n =
        ::pread(descriptor_, bytes.data() + have, size - have, offset + static_cast<int64_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return IoError(
          std::string("cannot read: ") + (n < 0 ? std::strerror(errno) : "it ends early"),
          Place{path_});
    }
    have += static_cast<size_t>(n);
  }
  return bytes;
}

}  // namespace kcc
