#include "kcc/report/report_directory.h"

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

#include "kcc/base/descriptor.h"
#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/base/temporary.h"
#include "kcc/report/static_page.h"

namespace kcc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLockName = ".kcc-report.lock";

Error SystemError(const std::string& what, const std::string& path) {
  return IoError(what + ": " + std::strerror(errno), Place{path});
}

std::string LockName(const std::string& directory) {
  return (fs::path(directory) / kLockName).string();
}

// A writer removes the lock's file before it lets go of the lock. Who opened that file just before
// holds a lock that nobody else will see, and must begin again: a lock counts only while its file
// still has its name.
Result<int> TakeLock(const std::string& directory) {
  const std::string path = LockName(directory);
  for (;;) {
    FileDescriptor file(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    if (file.get() < 0) return SystemError("cannot write into the report directory", directory);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
      return InvalidError("is not a regular file, so it cannot lock the directory", Place{path});
    }
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (NamesOpenFile(path, file.get())) return file.Release();
    } else if (errno == EWOULDBLOCK) {
      return IoError(
          "another run is writing its report here; wait for it, or name another directory",
          Place{directory});
    } else if (errno != EINTR) {
      return SystemError("cannot lock the report directory", directory);
    }
  }
}

// What stands under one of the names.
enum class Found { kNothing, kOurs, kForeign };

// Ours is what carries the mark of its format, or what the report.json beside it names by its
// digest. Everything else is someone's work, and is neither removed nor replaced.
Result<Found> Look(const std::string& path, std::string_view name, const ReportFiles& known) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return Found::kNothing;
    return SystemError("cannot look at", path);
  }
  if (!S_ISREG(info.st_mode)) return Found::kForeign;
  if (info.st_size == 0) return Found::kOurs;  // says nothing, and nobody loses anything
  if (static_cast<uint64_t>(info.st_size) > kReportBytesMax) return Found::kForeign;
  KCC_TRY(const std::string bytes, ReadRegularFile(path, kReportBytesMax));
  if (HasReportMark(name, bytes)) return Found::kOurs;
  const auto digest = known.find(std::string(name));
  return digest != known.end() && digest->second == Sha256Of(bytes) ? Found::kOurs
                                                                    : Found::kForeign;
}

// The digests that an earlier report.json names; none where there is no such report.
ReportFiles KnownFiles(const std::string& report_json) {
  const Result<std::string> text = ReadRegularFile(report_json, kReportBytesMax);
  if (!text.has_value() || !HasReportMark(kReportJsonName, *text)) return {};
  Result<ReportFiles> files = ReadReportFiles(*text);
  return files.has_value() ? std::move(*files) : ReportFiles();
}

Error ForeignFile(const std::string& path) {
  return InvalidError(
      "was not written by kcc, and a report would replace it; move it, or name another directory",
      Place{path});
}

}  // namespace

Result<ReportDirectory> ReportDirectory::Open(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  std::error_code unknown;
  if (failed && fs::exists(path, unknown) && !fs::is_directory(path, unknown)) {
    return InvalidError("is a file, not a directory for a report", Place{path});
  }
  if (failed) return IoError("cannot make the directory: " + failed.message(), Place{path});
  ReportDirectory directory(path);  // which removes the lock, however this ends
  KCC_TRY(directory.lock_, TakeLock(path));
  return directory;
}

ReportDirectory::ReportDirectory(const std::string& path)
    : path_(path), lock_name_(LockName(path)) {
  written_.reserve(ReportFormats().size());
}

ReportDirectory::ReportDirectory(ReportDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      lock_name_(std::move(other.lock_name_)),
      lock_(std::exchange(other.lock_, -1)),
      written_(std::move(other.written_)) {}

ReportDirectory::~ReportDirectory() {
  if (lock_ < 0) return;
  struct stat info {};
  const bool empty = ::fstat(lock_, &info) == 0 && info.st_size == 0;
  if (empty && NamesOpenFile(lock_name_, lock_)) ::unlink(lock_name_.c_str());
  ::close(lock_);
}

std::string ReportDirectory::File(std::string_view name) const {
  return (fs::path(path_) / name).string();
}

Result<> ReportDirectory::Clear(const AskedFormats& asked) {
  const ReportFiles known = KnownFiles(File(kReportJsonName));
  std::optional<Error> problem;  // the first one; the rest is removed all the same
  const auto note = [&problem](Error error) {
    if (!problem) problem = std::move(error);
  };
  bool removed = false;
  const auto remove = [&](const std::string& path) {
    if (::unlink(path.c_str()) == 0) {
      removed = true;
    } else if (errno != ENOENT) {
      note(SystemError("cannot remove an earlier report's file", path));
    }
  };
  for (const ReportFormat& format : ReportFormats()) {
    if (format.file.empty()) continue;
    const std::string path = File(format.file);
    const Result<Found> found = Look(path, format.file, known);
    if (!found.has_value()) {
      note(found.error());
    } else if (*found == Found::kOurs) {
      remove(path);
    } else if (*found == Found::kForeign && IsWritten(format, asked)) {
      note(ForeignFile(path));
    }
  }
  // The page that a report links to is of the earlier run too.
  const std::string linked = File(kAttributionPage);
  const Result<std::string> page = ReadRegularFile(linked, kReportBytesMax);
  if (page.has_value() && IsStaticPage(*page, kAttributionKind)) remove(linked);
  RemoveStaleTemporaries(path_);
  if (removed) SyncDirectory(path_);
  written_.clear();
  if (problem) return *std::move(problem);
  return {};
}

// report.json is written last and removed first. So a directory with a report.json holds all the
// files that it names, even where this process was killed; one without is known to be unfinished.
Result<> ReportDirectory::Write(const ReportData& report, const AskedFormats& asked) {
  KCC_TRY_VOID(Clear(asked));
  ReportFiles files;
  const auto write = [&](const ReportFormat& format) -> Result<> {
    const std::string text = format.write(report, files);
    written_.push_back(format.file);  // first: Clear left nothing there; what comes is taken back
    KCC_TRY_VOID(WriteFileAtomically(File(format.file), text));
    files.emplace(format.file, Sha256Of(text));
    return {};
  };
  const auto write_all = [&]() -> Result<> {
    for (const ReportFormat& format : ReportFormats().subspan(1)) {
      if (IsWritten(format, asked)) KCC_TRY_VOID(write(format));
    }
    return write(ReportFormats()[0]);  // report.json, which names the others
  };
  try {
    Result<> done = write_all();
    if (!done.has_value()) Discard();
    return done;
  } catch (...) {
    Discard();
    throw;
  }
}

void ReportDirectory::Discard() noexcept {
  if (written_.empty()) return;
  const int folder = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    std::reverse(written_.begin(), written_.end());  // report.json first
    for (const std::string_view name : written_) ::unlinkat(folder, name.data(), 0);  // literals
    (void)::fsync(folder);
    ::close(folder);
  }
  written_.clear();
}

Result<> VerifyReportFiles(const std::string& directory, const ReportFiles& files) {
  for (const auto& [name, digest] : files) {
    const std::string path = (fs::path(directory) / name).string();
    if (name == kReportJsonName || FindReportFile(name) == nullptr) continue;  // a later version's
    KCC_TRY(const std::string bytes, ReadRegularFile(path, kReportBytesMax));
    if (Sha256Of(bytes) != digest) {
      return InvalidError("is not the file that report.json names: it was edited or replaced",
                          Place{path});
    }
  }
  for (const ReportFormat& format : ReportFormats().subspan(1)) {
    if (format.file.empty() || files.contains(std::string(format.file))) continue;
    const std::string path = (fs::path(directory) / format.file).string();
    const Result<std::string> bytes = ReadRegularFile(path, kReportBytesMax);
    if (bytes.has_value() && format.has_mark(*bytes)) {
      return InvalidError("is of another report: report.json does not name it", Place{path});
    }
  }
  return {};
}

}  // namespace kcc
