// Lines of a text file, pulled one at a time in bounded memory: what ForEachLine (requests.h)
// pushes, for readers that must stop in between.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

class LineReader {
 public:
  static Result<LineReader> Open(const std::string& path, size_t line_bytes_max);
  LineReader(LineReader&& other) noexcept;
  LineReader& operator=(LineReader&&) = delete;
  ~LineReader();

  // The next non-blank line without its line end; false at the end of the file. The view lives
  // until the next call. Errors carry the file and the line.
  Result<bool> Next(std::string_view* line);
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
  int number_ = 0;
};

}  // namespace kcc
