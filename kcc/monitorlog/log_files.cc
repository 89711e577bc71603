#include "kcc/monitorlog/log_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

namespace kcc {
namespace {

constexpr size_t kNumberDigits = 12;
constexpr mode_t kLogMode = 0644;
constexpr int kNamesTried = 100;

std::string NextName(const std::string& path) { return path + ".next"; }

// The number of digits that begin the text.
size_t Digits(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789"), text.size());
}

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::optional<struct stat> StatOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return info;
}

// A second name for the file under `path`. A name that another file has is left to it: a log that
// began anew may count to the same number.
Result<> NameAside(const std::string& path, int64_t decisions) {
  const auto ours = StatOf(path);
  for (int i = 0; i < kNamesTried; ++i) {
    std::string aside = SetAsideName(path, decisions);
    if (i > 0) {
      const std::filesystem::path parts(aside);
      aside = (parts.parent_path() / parts.stem()).string() + "-" + std::to_string(i + 1) +
              parts.extension().string();
    }
    if (::link(path.c_str(), aside.c_str()) == 0) return {};
    if (errno != EEXIST) return LogError("cannot set the log aside as " + aside, path);
    const auto there = StatOf(aside);
    if (ours && there && SameFile(*ours, *there)) return {};
  }
  return IoError("cannot set the log aside: too many files have its number", Place{path});
}

}  // namespace

Error LogError(const std::string& what, const std::string& path) {
  return IoError(what + ": " + std::strerror(errno), Place{path});
}

std::string SetAsideName(const std::string& path, int64_t decisions) {
  const std::filesystem::path parts(path);
  std::string number = std::to_string(decisions);
  if (number.size() < kNumberDigits) number.insert(0, kNumberDigits - number.size(), '0');
  const std::string name = parts.stem().string() + "-" + number + parts.extension().string();
  return (parts.parent_path() / name).string();
}

std::vector<std::string> SetAsideFiles(const std::string& path) {
  const std::filesystem::path parts(path);
  const std::string begin = parts.stem().string() + "-";
  const std::string extension = parts.extension().string();
  const std::filesystem::path folder = parts.has_parent_path() ? parts.parent_path() : ".";
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(extension)) continue;
    if (name.size() < begin.size() + extension.size()) continue;
    const std::string_view middle =
        std::string_view(name).substr(begin.size(), name.size() - begin.size() - extension.size());
    const size_t digits = Digits(middle);
    const std::string_view rest = middle.substr(digits);
    const bool again =
        rest.size() > 1 && rest[0] == '-' && Digits(rest.substr(1)) + 1 == rest.size();
    if (digits >= kNumberDigits && (rest.empty() || again)) {
      files.push_back((parts.parent_path() / name).string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void RemoveOldestSetAside(const std::string& path, size_t keep) {
  const std::vector<std::string> files = SetAsideFiles(path);
  for (size_t i = 0; i + keep < files.size(); ++i) (void)::unlink(files[i].c_str());
}

void TidySetAside(const std::string& path, int descriptor, int64_t decisions) {
  (void)::unlink(NextName(path).c_str());
  struct stat ours {};
  if (::fstat(descriptor, &ours) != 0 || ours.st_nlink < 2) return;
  const std::string aside = SetAsideName(path, decisions);
  const auto there = StatOf(aside);
  if (there && SameFile(ours, *there)) (void)::unlink(aside.c_str());
}

Result<FileDescriptor> OpenLogForAppend(const std::string& path) {
  FileDescriptor file(::open(
      path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, kLogMode));
  if (file.get() < 0) return LogError("cannot open the log", path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return LogError("cannot open the log", path);
  if (!S_ISREG(info.st_mode)) return InvalidError("a log must be a regular file", Place{path});
  const auto another = [&] {
    return InvalidError("another monitor is writing this log", Place{path});
  };
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return LogError("cannot lock the log", path);
    return another();
  }
  // Its writer may have set it aside between our opening and our locking it.
  const auto now = StatOf(path);
  if (!now || !SameFile(info, *now)) return another();
  return file;
}

Result<FileDescriptor> ReplaceLogFile(const std::string& path, int64_t decisions,
                                      std::string_view first_line) {
  const std::string next = NextName(path);
  // Not one that is there: a killed writer's, or its second name.
  (void)::unlink(next.c_str());
  FileDescriptor file(
      ::open(next.c_str(), O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, kLogMode));
  if (file.get() < 0) return LogError("cannot begin a new file of the log", next);
  const auto made = [&]() -> Result<> {
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return LogError("cannot lock the log", next);
    KCC_TRY_VOID(WriteWholly(file.get(), std::string(first_line) + '\n', next));
    if (::fsync(file.get()) != 0) return LogError("cannot sync", next);
    if (decisions >= 0) {
      KCC_TRY_VOID(NameAside(path, decisions));
      // Before it loses its first name: a machine that stops keeps no order among names.
      KCC_TRY_VOID(SyncFolderOf(path));
    }
    if (std::rename(next.c_str(), path.c_str()) != 0) return LogError("cannot name the log", path);
    return {};
  }();
  if (!made.has_value()) {
    (void)::unlink(next.c_str());
    return Error(made.error());
  }
  return file;
}

Result<> SyncFolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const FileDescriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (open.get() < 0 || ::fsync(open.get()) != 0) return LogError("cannot sync", folder);
  return {};
}

Result<> WriteWholly(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return LogError("cannot write", path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace kcc
