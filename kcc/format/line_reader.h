// Lines of a text file, pulled one at a time in bounded memory: what ForEachLine (requests.h)
// pushes, for readers that must stop in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

// What a file of lines may be. A file that nobody named, such as a part of a trace, must be a
// regular one, since a FIFO there would make its reader wait for ever. One that is read twice may
// still be a pipe: its bytes are kept, up to kPipeBytesMax.
enum class LineSource { kAny, kRegular, kReadTwice };

inline constexpr int64_t kPipeBytesMax = int64_t{4} << 30;

class LineReader {
 public:
  static Result<LineReader> Open(const std::string& path, size_t line_bytes_max,
                                 LineSource source = LineSource::kAny);
  LineReader(LineReader&& other) noexcept;
  LineReader& operator=(LineReader&&) = delete;
  ~LineReader();

  // The next non-blank line without its line end; false at the end of the file. The view lives
  // until the next call. Errors carry the file and the line.
  Result<bool> Next(std::string_view* line);
  // After Next refused a line as too long (the one kInvalid that it has): passes over what is left
  // of it, so that Next gives the line after.
  Result<> SkipRest();
  // Begins again, in the same file even if its name now means another; kReadTwice only.
  Result<> Rewind();
  int number() const { return number_; }  // of the last line, from 1
  const std::string& path() const { return path_; }

 private:
  LineReader(std::string path, int descriptor, size_t line_bytes_max);
  Error TooLong() const;
  Result<bool> NextOfAny(std::string_view* line);
  Result<> Fill();

  std::string path_;
  int descriptor_ = -1;
  size_t line_bytes_max_ = 0;
  std::string buffer_;
  size_t begin_ = 0;
  bool at_end_ = false;
  bool in_long_line_ = false;
  int number_ = 0;
};

}  // namespace kcc
