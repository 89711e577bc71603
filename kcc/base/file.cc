#include "kcc/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "kcc/base/pipe_signal.h"
#include "kcc/base/temporary.h"

namespace kcc {
namespace {

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

std::string_view KindName(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return S_ISSOCK(mode) ? "a socket" : "a file of an unknown kind";
}

bool TakesAStream(mode_t mode) { return S_ISFIFO(mode) || S_ISCHR(mode); }

Result<std::string> ReadAll(const FileDescriptor& file, const std::string& path, size_t max_bytes) {
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

Error NotRegular(mode_t mode, const std::string& path) {
  return InvalidError("is " + std::string(KindName(mode)) + ", not a regular file", Place{path});
}

// What an output's name means now.
struct Output {
  bool through = false;  // written as a stream
  bool exists = false;
  mode_t mode = 0;  // permissions of the file to replace
};

Error RefusedLink(const std::string& path, const std::string& kind) {
  std::error_code unknown;
  const std::string to = std::filesystem::read_symlink(path, unknown).string();
  return InvalidError("is a link to " + (to.empty() ? "" : "'" + to + "', ") + kind +
                          ", and a link is not written to; name the file itself",
                      Place{path});
}

Result<Output> LookAtOutput(const std::string& path) {
  struct stat named {};
  if (::lstat(path.c_str(), &named) != 0) {
    if (errno == ENOENT) return Output{};
    return SystemError("cannot write here", path);
  }
  struct stat info = named;
  const bool link = S_ISLNK(named.st_mode);
  if (link && ::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return RefusedLink(path, "which does not exist");
    return SystemError("cannot follow the link", path);
  }
  if (TakesAStream(info.st_mode)) return Output{.through = true, .exists = true};
  if (link) return RefusedLink(path, "which is " + std::string(KindName(info.st_mode)));
  if (S_ISREG(info.st_mode)) return Output{.exists = true, .mode = info.st_mode & 07777};
  return InvalidError("is " + std::string(KindName(info.st_mode)) +
                          ", and an output is a regular file, a FIFO or a character device; name "
                          "another file",
                      Place{path});
}

using FillFile = std::function<Result<>(const WritePiece&)>;

FillFile OnePiece(std::string_view bytes) {
  return [bytes](const WritePiece& write) { return write(bytes); };
}

WritePiece PiecesInto(int fd, const std::string& path) {
  return [fd, &path](std::string_view bytes) -> Result<> {
    if (!WriteAll(fd, bytes)) return SystemError("cannot write", path);
    return {};
  };
}

// No O_CREAT: what was there a moment ago must still be there.
Result<> WriteThrough(const std::string& path, const FillFile& fill) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (file.get() < 0) return SystemError("cannot open", path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !TakesAStream(info.st_mode)) {
    return IoError("was replaced while it was being opened", Place{path});
  }
  const PipeSignalGuard guard;
  KCC_TRY_VOID(fill(PiecesInto(file.get(), path)));
  if (!file.Close()) return SystemError("cannot write", path);
  return {};
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// A synced temporary with the bytes, beside the file it is to replace. It stays open, for the lock:
// after fsync, close has nothing left to report.
Result<Temporary> WriteBeside(const std::string& path, const Output& output, const FillFile& fill) {
  // A file that is replaced keeps its mode. Until it has it, nobody else may read the new bytes:
  // the old file may have been private.
  const mode_t mode = output.exists ? 0600 : 0666;
  Result<Temporary> made = Temporary::Make(FolderOf(path), Temporary::Kind::kFile, mode);
  if (!made.has_value()) return Error(ErrorCode::kIo, made.error().message(), Place{path});
  const int fd = made->descriptor();
  if (output.exists && ::fchmod(fd, output.mode) != 0) {
    return SystemError("cannot set the mode", path);
  }
  KCC_TRY_VOID(fill(PiecesInto(fd, path)));
  if (::fsync(fd) != 0) return SystemError("cannot write", path);
  return made;
}

// Brings files into place one after the other, and all of them back unless Keep is called.
// The last file is the one that readers look for, such as report.json. It is moved away first and
// put last, so that at any moment they find the old set, none, or the new one. Example: a exists, b
// does not, z is the last.
//
//     done:     z moved aside, a exchanged, b made, z put, Keep
//     b fails:  z moved aside, a exchanged; then a exchanged back and z brought back
class Replacement {
 public:
  Replacement() = default;
  ~Replacement() {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      if (step->done == Done::kMade) {
        ::unlink(step->target.c_str());
      } else if (step->done == Done::kReplaced && !step->file.ExchangeWith(step->target)) {
        (void)step->file.RenameTo(step->target);
      }
    }
    if (aside_) (void)aside_->RenameTo(last_);
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  Result<> Withdraw(const std::string& last) {
    last_ = last;
    KCC_TRY(aside_, Temporary::MoveAside(last));
    return {};
  }
  Result<> Put(Temporary file, const std::string& target) {
    // Noted first: memory may run out for the note, and what is in place could not be taken back.
    Step& step = steps_.emplace_back(Step{target, std::move(file), Done::kNothing});
    if (step.file.ExchangeWith(target)) {
      step.done = Done::kReplaced;
    } else if (step.file.RenameTo(target)) {
      step.done = Done::kMade;
    } else {
      return SystemError("cannot replace", target);
    }
    return {};
  }
  void Keep() {
    steps_.clear();
    aside_.reset();
  }

 private:
  enum class Done { kNothing, kMade, kReplaced };
  struct Step {
    std::string target;
    Temporary file;  // what stood there, once it is replaced
    Done done;
  };
  std::vector<Step> steps_;
  std::optional<Temporary> aside_;
  std::string last_;
};

}  // namespace

Result<FileDescriptor> OpenRegularFile(const std::string& path) {
  // Looked at before it is opened, since opening alone wakes a FIFO's writer or moves a device; and
  // after, since it may have been replaced in between.
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return SystemError("cannot open", path);
  if (!S_ISREG(info.st_mode)) return NotRegular(info.st_mode, path);
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) return SystemError("cannot open", path);
  if (!S_ISREG(info.st_mode)) return NotRegular(info.st_mode, path);
  return file;
}

Result<std::string> ReadRegularFile(const std::string& path, size_t max_bytes) {
  KCC_TRY(const FileDescriptor file, OpenRegularFile(path));
  return ReadAll(file, path, max_bytes);
}

Result<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (file.get() < 0) return SystemError("cannot open", path);
  struct stat info {};
  if (::fstat(file.get(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return InvalidError("is a directory, not a file", Place{path});
  }
  return ReadAll(file, path, max_bytes);
}

Result<> WriteFileAtomically(const std::string& path, std::string_view bytes) {
  return WriteFileInPieces(path, OnePiece(bytes));
}

Result<> WriteFileInPieces(const std::string& path, const FillFile& fill) {
  KCC_TRY(const Output output, LookAtOutput(path));
  if (output.through) return WriteThrough(path, fill);
  KCC_TRY(Temporary file, WriteBeside(path, output, fill));
  if (!file.RenameTo(path)) return SystemError("cannot replace", path);
  SyncDirectory(FolderOf(path));
  return {};
}

Result<> WriteFilesTogether(const std::string& directory, std::span<const NamedBytes> files) {
  const std::filesystem::path folder(directory);
  std::vector<Temporary> written;
  for (const NamedBytes& file : files) {
    const std::string path = (folder / file.name).string();
    KCC_TRY(const Output output, LookAtOutput(path));
    if (output.through) return InvalidError("is not a regular file; move it away", Place{path});
    KCC_TRY(Temporary one, WriteBeside(path, output, OnePiece(file.bytes)));
    written.push_back(std::move(one));
  }
  // One writer at a time from here on, where directories can be locked; it is over in a moment.
  const FileDescriptor lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.get() >= 0) (void)::flock(lock.get(), LOCK_EX);
  Replacement replacement;
  const std::string last = (folder / files.back().name).string();
  if (std::error_code unknown; std::filesystem::exists(last, unknown)) {
    KCC_TRY_VOID(replacement.Withdraw(last));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    KCC_TRY_VOID(replacement.Put(std::move(written[i]), (folder / files[i].name).string()));
  }
  replacement.Keep();
  SyncDirectory(directory);
  return {};
}

Result<> WriteScratchFile(const std::string& path, std::string_view bytes) {
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (file.get() < 0) return SystemError("cannot create", path);
  if (!WriteAll(file.get(), bytes) || !file.Close()) return SystemError("cannot write", path);
  return {};
}

}  // namespace kcc
