// Lines of JSON, appended to a file that is set aside when it has grown, or written to standard
// error. Nothing here ends anything: a line that cannot be written is lost, counted, and the next
// one is tried again.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/descriptor.h"
#include "kcc/base/result.h"

namespace kcc {

class LineLog {
 public:
  // `path`: empty: standard error, which never grows. A file of more than `bytes_max` becomes
  // PATH.1 (the one before it is gone) and a new one begins.
  LineLog(std::string path, size_t bytes_max);

  // A line without its end; written with one call, so that what is killed leaves whole lines.
  void Write(std::string_view line);
  // For whoever moved the file away: the next line goes to a new one.
  void Reopen();

  uint64_t errors() const;
  std::string last_error() const;  // empty: the last line was written

  // The last lines of the file and the one before it, oldest first; of a cut one nothing.
  std::vector<std::string> ReadLast(size_t count) const;

 private:
  bool Open();  // holding the lock
  void Fail(const char* what);

  const std::string path_;
  const size_t bytes_max_;
  mutable std::mutex mutex_;
  FileDescriptor file_;
  size_t bytes_ = 0;
  bool cut_ = false;  // the last line is there in part
  uint64_t errors_ = 0;
  std::string last_error_;
};

}  // namespace kcc
