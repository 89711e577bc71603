#include "kcc/base/temporary.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "kcc/base/directory.h"

namespace kcc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNamePrefix = ".kcc-";
constexpr std::string_view kSuffix = ".tmp";
constexpr size_t kRandomLetters = 10;
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz234567";
constexpr int kTriesMax = 1000;

// Empty if the system gives no randomness; errno says why.
std::string RandomName() {
  std::array<unsigned char, kRandomLetters> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
  std::string name(kNamePrefix);
  for (const unsigned char byte : bytes) name += kLetters[byte % kLetters.size()];
  return name.append(kSuffix);
}

bool IsTemporaryName(std::string_view name) {
  if (name.size() != kNamePrefix.size() + kRandomLetters + kSuffix.size()) return false;
  if (!name.starts_with(kNamePrefix) || !name.ends_with(kSuffix)) return false;
  const std::string_view letters = name.substr(kNamePrefix.size(), kRandomLetters);
  return letters.find_first_not_of(kLetters) == std::string_view::npos;
}

// A temporary is locked for as long as its writer lives, by the system and not by a file that could
// stay behind. So whoever gets the lock of a temporary knows that its writer is gone, and may
// remove it. Where locks are not to be had, nothing is removed.
enum class Lock { kTaken, kHeldByAnother, kUnknown };

Lock TryLock(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return Lock::kTaken;
  return errno == EWOULDBLOCK ? Lock::kHeldByAnother : Lock::kUnknown;
}

// A read-only file's owner may lock it too, though some file systems want it open for writing.
FileDescriptor OpenToLock(const std::string& path, bool folder) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  if (folder) return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | kFlags));
  const int fd = ::open(path.c_str(), O_RDWR | kFlags);
  return FileDescriptor(fd >= 0 ? fd : ::open(path.c_str(), O_RDONLY | kFlags));
}

// A file, a link or a directory with what it holds; allocates nothing, since destructors come here.
void Remove(const std::string& path) noexcept {
  if (::unlink(path.c_str()) != 0) RemoveTreeQuietly(path.c_str());
}

void RemoveIfStale(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || info.st_uid != ::geteuid()) return;
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return;
  const FileDescriptor fd = OpenToLock(path, S_ISDIR(info.st_mode));
  if (fd.get() < 0 || TryLock(fd.get()) != Lock::kTaken) return;
  if (NamesOpenFile(path, fd.get())) Remove(path);
}

// An open new file or directory; -1: see errno.
FileDescriptor Create(const std::string& path, Temporary::Kind kind, mode_t mode) {
  if (kind == Temporary::Kind::kFile) {
    return FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  }
  if (::mkdir(path.c_str(), mode) != 0) return FileDescriptor();
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() >= 0) return fd;
  const int why = errno == ENOENT ? EEXIST : errno;  // another process took it for a leftover
  ::rmdir(path.c_str());
  errno = why;
  return fd;
}

}  // namespace

bool NamesOpenFile(const std::string& path, int fd) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

void SyncDirectory(const std::string& directory) {
  const FileDescriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) (void)::fsync(fd.get());
}

void RemoveStaleTemporaries(const std::string& directory) {
  const Result<std::vector<std::string>> names = ListDirectory(directory);
  if (!names.has_value()) return;
  for (const std::string& name : *names) {
    if (IsTemporaryName(name)) RemoveIfStale((fs::path(directory) / name).string());
  }
}

Result<Temporary> Temporary::Make(const std::string& directory, Kind kind, mode_t mode) {
  RemoveStaleTemporaries(directory);
  for (int i = 0; i < kTriesMax; ++i) {
    const std::string name = RandomName();
    if (name.empty()) break;
    std::string path = (fs::path(directory) / name).string();
    FileDescriptor fd = Create(path, kind, mode);
    if (fd.get() < 0 && errno == EEXIST) continue;
    if (fd.get() < 0) break;
    const Lock lock = TryLock(fd.get());
    // Between making and locking, another process may have taken it for a leftover and removed it:
    // then the name is gone, or is another file's by now.
    if (lock == Lock::kHeldByAnother || !NamesOpenFile(path, fd.get())) continue;
    // Moved, since a copy could fail, and then nobody would know of the file.
    return Temporary(std::move(path), std::move(fd));
  }
  return IoError(std::string("cannot write here: ") + std::strerror(errno), Place{directory});
}

Result<Temporary> Temporary::MoveAside(const std::string& path) {
  FileDescriptor fd = OpenToLock(path, false);
  const std::string name = RandomName();
  std::string aside = (fs::path(path).parent_path() / name).string();
  if (fd.get() >= 0) (void)TryLock(fd.get());
  if (fd.get() < 0 || name.empty() || ::rename(path.c_str(), aside.c_str()) != 0) {
    return IoError(std::string("cannot replace: ") + std::strerror(errno), Place{path});
  }
  return Temporary(std::move(aside), std::move(fd));
}

Temporary::Temporary(Temporary&& other) noexcept { *this = std::move(other); }

Temporary& Temporary::operator=(Temporary&& other) noexcept {
  path_.swap(other.path_);
  lock_ = std::move(other.lock_);
  return *this;
}

Temporary::~Temporary() {
  if (!path_.empty()) Remove(path_);
}

bool Temporary::RenameTo(const std::string& target) {
  if (::rename(path_.c_str(), target.c_str()) != 0) return false;
  path_.clear();
  return true;
}

// path_ stays: it now names what stood at the target, which goes with this object.
bool Temporary::ExchangeWith(const std::string& target) {
  return ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace kcc
