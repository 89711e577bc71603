#include "kcc/trace/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kcc {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;

}  // namespace

Result<LineReader> LineReader::Open(const std::string& path, size_t line_bytes_max) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return IoError(std::string("cannot open: ") + std::strerror(errno), Place{path});
  }
  return LineReader(path, descriptor, line_bytes_max);
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
      number_(other.number_) {}

LineReader::~LineReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

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

Result<bool> LineReader::NextOfAny(std::string_view* line) {
  size_t scanned = begin_;
  while (true) {
    const size_t end = buffer_.find('\n', scanned);
    if (end != std::string::npos || (at_end_ && begin_ < buffer_.size())) {
      const size_t stop = end == std::string::npos ? buffer_.size() : end;
      *line = std::string_view(buffer_).substr(begin_, stop - begin_);
      begin_ = stop + (end == std::string::npos ? 0 : 1);
      if (line->size() > line_bytes_max_) return TooLong();
      if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
      return true;
    }
    if (at_end_) return false;
    if (buffer_.size() - begin_ > line_bytes_max_) return TooLong();
    scanned = buffer_.size() - begin_;
    KCC_TRY_VOID(Fill());
  }
}

Result<> LineReader::Fill() {
  buffer_.erase(0, std::exchange(begin_, 0));
  const size_t have = buffer_.size();
  buffer_.resize(have + kBlockBytes);
  ssize_t n = 0;
  do {
    n = ::read(descriptor_, buffer_.data() + have, kBlockBytes);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return IoError(std::string("cannot read: ") + std::strerror(errno), Place{path_});
  buffer_.resize(have + static_cast<size_t>(n));
  at_end_ = n == 0;
  return {};
}

}  // namespace kcc
