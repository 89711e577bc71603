#include "kcc/control/line_log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "kcc/base/file.h"

namespace kcc {
namespace {

constexpr mode_t kMode = 0640;

void TakeLines(const std::string& path, size_t bytes_max, std::vector<std::string>* lines) {
  // Twice: the line that made it too large was written whole.
  const auto text = ReadRegularFile(path, 2 * bytes_max);
  if (!text.has_value()) return;
  size_t begin = 0;
  for (size_t end = text->find('\n'); end != std::string::npos; end = text->find('\n', begin)) {
    lines->push_back(text->substr(begin, end - begin));
    begin = end + 1;
  }
}

// Nobody waits for a reader of standard error that stopped: a pipe that is ready takes PIPE_BUF
// bytes at once, and lines are shorter.
bool TakesMore(int descriptor) {
  pollfd ready{descriptor, POLLOUT, 0};
  return ::poll(&ready, 1, 0) != 0;
}

}  // namespace

LineLog::LineLog(std::string path, size_t bytes_max)
    : path_(std::move(path)), bytes_max_(bytes_max) {}

void LineLog::Fail(const char* what) {
  ++errors_;
  last_error_ = std::string(what) + ": " + std::strerror(errno);
}

bool LineLog::Open() {
  if (file_.get() >= 0) return true;
  if (path_.empty()) {
    file_ = FileDescriptor(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  } else {
    file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kMode));
  }
  if (file_.get() < 0) {
    Fail("cannot open");
    return false;
  }
  struct stat info {};
  const bool regular = ::fstat(file_.get(), &info) == 0 && S_ISREG(info.st_mode);
  bytes_ = regular ? static_cast<size_t>(info.st_size) : 0;
  return true;
}

void LineLog::Write(std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (!path_.empty() && bytes_ > bytes_max_ && file_.get() >= 0) {
    file_ = FileDescriptor();
    if (std::rename(path_.c_str(), (path_ + ".1").c_str()) != 0) Fail("cannot set aside");
  }
  if (!Open()) return;
  if (path_.empty() && !TakesMore(file_.get())) {
    errno = EAGAIN;
    Fail("standard error takes no more");
    return;
  }
  // After a line that was cut, a new one begins.
  std::string whole = cut_ ? "\n" : "";
  whole.append(line) += '\n';
  size_t written = 0;
  while (written < whole.size()) {
    const ssize_t n = ::write(file_.get(), whole.data() + written, whole.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      Fail("cannot write");
      cut_ = cut_ || written > 0;
      return;
    }
    written += static_cast<size_t>(n);
  }
  cut_ = false;
  bytes_ += whole.size();
  last_error_.clear();
}

void LineLog::Reopen() {
  const std::lock_guard lock(mutex_);
  file_ = FileDescriptor();
}

uint64_t LineLog::errors() const {
  const std::lock_guard lock(mutex_);
  return errors_;
}

std::string LineLog::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

std::vector<std::string> LineLog::ReadLast(size_t count) const {
  std::vector<std::string> lines;
  if (path_.empty()) return lines;
  TakeLines(path_ + ".1", bytes_max_, &lines);
  TakeLines(path_, bytes_max_, &lines);
  if (lines.size() > count)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

}  // namespace kcc
