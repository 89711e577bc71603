#include "kcc/format/line_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kcc/base/file.h"

namespace kcc {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;

Error SystemError(const std::string& what, const std::string& path) {
  return IoError(what + ": " + std::strerror(errno), Place{path});
}

ssize_t ReadSome(int descriptor, char* bytes, size_t size) {
  ssize_t n = 0;
  do {
    n = ::read(descriptor, bytes, size);
  } while (n < 0 && errno == EINTR);
  return n;
}

// All that comes out of a pipe or a device, in a file without a name that goes with the process.
// Requests are read twice, to check them all before an engine starts. A pipe says everything once,
// so it is kept. In memory, not on a disk: it may hold what nobody should find there later.
Result<FileDescriptor> Keep(const FileDescriptor& pipe, const std::string& path) {
  FileDescriptor kept(::memfd_create("kcc-lines", MFD_CLOEXEC));
  if (kept.get() < 0) return SystemError("cannot keep what the pipe says", path);
  std::string block(kBlockBytes, '\0');
  for (int64_t size = 0;;) {
    const ssize_t n = ReadSome(pipe.get(), block.data(), block.size());
    if (n < 0) return SystemError("cannot read", path);
    if (n == 0) break;
    size += n;
    if (size > kPipeBytesMax) {
      return InvalidError("says more than the limit of " + std::to_string(kPipeBytesMax) +
                              " bytes for a pipe; write it to a file first",
                          Place{path});
    }
    for (std::string_view rest(block.data(), static_cast<size_t>(n)); !rest.empty();) {
      const ssize_t written = ::write(kept.get(), rest.data(), rest.size());
      if (written < 0) return SystemError("cannot keep what the pipe says", path);
      rest.remove_prefix(static_cast<size_t>(written));
    }
  }
  if (::lseek(kept.get(), 0, SEEK_SET) < 0) return SystemError("cannot seek", path);
  return kept;
}

}  // namespace

Result<LineReader> LineReader::Open(const std::string& path, size_t line_bytes_max,
                                    LineSource source) {
  if (source == LineSource::kRegular) {
    KCC_TRY(FileDescriptor file, OpenRegularFile(path));
    return LineReader(path, file.Release(), line_bytes_max);
  }
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (file.get() < 0) return SystemError("cannot open", path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return SystemError("cannot open", path);
  if (S_ISDIR(info.st_mode)) return InvalidError("is a directory, not a file", Place{path});
  if (source == LineSource::kReadTwice && !S_ISREG(info.st_mode)) {
    KCC_TRY(file, Keep(file, path));
  }
  return LineReader(path, file.Release(), line_bytes_max);
}

Result<> LineReader::Rewind() {
  if (::lseek(descriptor_, 0, SEEK_SET) < 0) return SystemError("cannot read again", path_);
  buffer_.clear();
  begin_ = 0;
  at_end_ = false;
  in_long_line_ = false;
  number_ = 0;
  return {};
}

LineReader::LineReader(std::string path, int descriptor, size_t line_bytes_max)
    : path_(std::move(path)), descriptor_(descriptor), line_bytes_max_(line_bytes_max) {}

LineReader::LineReader(LineReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      line_bytes_max_(other.line_bytes_max_),
      buffer_(std::move(other.buffer_)),
      begin_(other.begin_),
      at_end_(other.at_end_),
      in_long_line_(other.in_long_line_),
      number_(other.number_) {}

LineReader::~LineReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// Empty lines are passed over and counted: messages name lines as an editor does.
Result<bool> LineReader::Next(std::string_view* line) {
  while (true) {
    ++number_;
    Result<bool> more = NextOfAny(line);
    if (!more.has_value()) return std::move(more.error()).At(Place{path_, number_});
    if (!*more || line->find_first_not_of(" \t") != std::string_view::npos) return more;
  }
}

Error LineReader::TooLong() const {
  return InvalidError("the line is longer than the limit of " + std::to_string(line_bytes_max_) +
                      " bytes");
}

// Invariant: buffer_[begin_, end) is what was read and not yet given out. A line that was given out
// lies before begin_ and stays where it is until the next call. What was searched for a line end is
// not searched again, so that a line of 64 MiB costs one pass and not one per block.
Result<bool> LineReader::NextOfAny(std::string_view* line) {
  size_t scanned = begin_;
  while (true) {
    const size_t end = buffer_.find('\n', scanned);
    if (end != std::string::npos || (at_end_ && begin_ < buffer_.size())) {
      const size_t stop = end == std::string::npos ? buffer_.size() : end;
      *line = std::string_view(buffer_).substr(begin_, stop - begin_);
      begin_ = stop + (end == std::string::npos ? 0 : 1);
      if (line->size() > line_bytes_max_) return TooLong();
      // Files from Windows end their lines with both.
      if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
      return true;
    }
    if (at_end_) return false;
    // Before more is read: a file without line ends must not fill the memory.
    if (buffer_.size() - begin_ > line_bytes_max_) {
      in_long_line_ = true;
      return TooLong();
    }
    // Fill moves the rest to the front, so that it is counted from there.
    scanned = buffer_.size() - begin_;
    KCC_TRY_VOID(Fill());
  }
}

// What Next refused begins at begin_; where it had seen its end, begin_ lies beyond it already.
Result<> LineReader::SkipRest() {
  while (in_long_line_) {
    const size_t end = buffer_.find('\n', begin_);
    in_long_line_ = end == std::string::npos && !at_end_;
    begin_ = end == std::string::npos ? buffer_.size() : end + 1;
    if (in_long_line_) KCC_TRY_VOID(Fill());
  }
  return {};
}

Result<> LineReader::Fill() {
  buffer_.erase(0, std::exchange(begin_, 0));
  const size_t have = buffer_.size();
  buffer_.resize(have + kBlockBytes);
  const ssize_t n = ReadSome(descriptor_, buffer_.data() + have, kBlockBytes);
  if (n < 0) return SystemError("cannot read", path_);
  buffer_.resize(have + static_cast<size_t>(n));
  // Only a read of nothing is the end: a pipe gives what it has.
  at_end_ = n == 0;
  return {};
}

}  // namespace kcc
