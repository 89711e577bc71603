#include "kcc/train/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "kcc/base/file.h"

namespace kcc {
namespace {

constexpr size_t kLogBytesMax = size_t{1} << 30;

Error WriteFailed(const std::string& path) {
  return IoError(std::string("cannot write the log: ") + std::strerror(errno), Place{path});
}

}  // namespace

std::string StatePath(const std::string& folder) { return folder + "/state.safetensors"; }

Result<> PrepareRunFolder(const std::string& folder, bool resume) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return IoError("cannot make the directory: " + failed.message(), Place{folder});
  const bool there = std::filesystem::exists(StatePath(folder), failed);
  if (there && !resume) {
    return InvalidError(
        "the folder holds a training run; --resume goes on with it, and a new run needs another "
        "folder",
        Place{folder});
  }
  if (!there && resume)
    return InvalidError("the folder holds no training run to resume", Place{folder});
  if (!there && std::filesystem::exists(folder + "/model.safetensors", failed)) {
    return InvalidError(
        "the folder holds a checkpoint, which the run would replace; choose another folder",
        Place{folder});
  }
  return {};
}

Result<TrainingLog> TrainingLog::Open(const std::string& path, int64_t lines) {
  std::string kept;
  if (lines > 0) {
    KCC_TRY(const std::string text, ReadRegularFile(path, kLogBytesMax));
    size_t end = 0;
    for (int64_t i = 0; i < lines; ++i) {
      end = text.find('\n', end);
      if (end == std::string::npos) {
        return BrokenEvidenceError(
            "the log ends before line " + std::to_string(lines) + ", at which the state stands",
            Place{path});
      }
      ++end;
    }
    kept = text.substr(0, end);
  }
  KCC_TRY_VOID(WriteFileAtomically(path, kept));
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0) return WriteFailed(path);
  return TrainingLog(path, std::move(file));
}

Result<> TrainingLog::Append(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(file_.get(), line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteFailed(path_);
    line.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Result<> TrainingLog::Sync() {
  if (::fsync(file_.get()) != 0) return WriteFailed(path_);
  return {};
}

}  // namespace kcc
