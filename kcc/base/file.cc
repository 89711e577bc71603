#include "kcc/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace kcc {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  // close() reports the last write error on some file systems, so a writer must look at it.
  bool Close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

Error SystemError(const std::string& what, const std::string& path) {
  return IoError(what + ": " + std::strerror(errno), Place{path});
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Removes the neighbour unless it has become the file itself.
class Neighbour {
 public:
  explicit Neighbour(std::string path) : path_(std::move(path)) {}
  ~Neighbour() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  void Renamed() { path_.clear(); }

 private:
  std::string path_;
};

}  // namespace

Result<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return SystemError("cannot open", path);
  struct stat info {};
  if (::fstat(file.get(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return InvalidError("is a directory, not a file", Place{path});
  }
  constexpr size_t kChunk = size_t{1} << 16;
  std::string bytes;
  while (true) {
    const size_t have = bytes.size();
    bytes.resize(have + std::min(kChunk, max_bytes + 1 - have));
    const ssize_t n = ::read(file.get(), bytes.data() + have, bytes.size() - have);
    if (n < 0 && errno != EINTR) return SystemError("cannot read", path);
    bytes.resize(have + (n < 0 ? 0 : static_cast<size_t>(n)));
    if (bytes.size() > max_bytes) {
      return InvalidError("larger than the limit of " + std::to_string(max_bytes) + " bytes",
                          Place{path});
    }
    if (n == 0) return bytes;
  }
}

Result<> WriteFileAtomically(const std::string& path, std::string_view bytes,
                             std::string_view neighbour_prefix) {
  // A symbolic link stays a link: the file it points to is the one replaced.
  std::error_code unresolved;
  std::filesystem::path target = std::filesystem::canonical(path, unresolved);
  if (unresolved) target = path;
  const std::filesystem::path folder =
      target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");

  const std::string prefix =
      neighbour_prefix.empty() ? "." + target.filename().string() : std::string(neighbour_prefix);
  std::string pattern = (folder / (prefix + ".XXXXXX")).string();
  FileDescriptor file(::mkostemp(pattern.data(), O_CLOEXEC));
  if (file.get() < 0) return SystemError("cannot write here", path);
  Neighbour neighbour(pattern);

  struct stat info {};
  mode_t mode = 0;
  if (::stat(target.c_str(), &info) == 0) {
    mode = info.st_mode & 07777;
  } else {
    // mkostemp gives 0600; a new file gets what open(2) would have given it.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    mode = 0666 & ~mask;
  }
  if (::fchmod(file.get(), mode) != 0) return SystemError("cannot set the mode", path);
  if (!WriteAll(file.get(), bytes) || ::fsync(file.get()) != 0 || !file.Close()) {
    return SystemError("cannot write", path);
  }
  if (::rename(pattern.c_str(), target.c_str()) != 0) return SystemError("cannot replace", path);
  neighbour.Renamed();

  // Without this a crash may forget the rename. A file system that cannot sync a directory has
  // nothing better to offer, so its refusal is not an error.
  FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) (void)::fsync(directory.get());
  return {};
}

}  // namespace kcc
