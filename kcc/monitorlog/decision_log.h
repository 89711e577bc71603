// A decision log as a file: appended to, never changed, one writer at a time.
//
// Every line is written with one call as soon as it is decided, so that a process that is killed
// leaves at most its last line cut; Sync makes lines outlast the machine as well. On opening, a log
// that is there is read from its start: every line must name the digest of the one before. A cut
// last line is dropped and said to be.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "kcc/base/descriptor.h"
#include "kcc/base/result.h"
#include "kcc/monitorlog/log_record.h"

namespace kcc {

// A line of a log that holds a decision.
struct LogLine {
  int number = 0;         // in the file, from 1
  std::string_view text;  // without its end
  std::string digest;     // of the text
  LoggedObservation logged;
};
using LogVisitor = std::function<Result<>(const LogLine&)>;

struct LogReading {
  LogStart start;
  std::string head;         // digest of the last whole line; empty: there is none
  int64_t decisions = 0;    // lines after the first
  int64_t whole_bytes = 0;  // to the end of the last whole line
  int64_t cut_bytes = 0;    // of a last line without an end
  std::string cut;          // its beginning
};

// Reads a log from its start to its end. Fails at the first line that is not chained to the one
// before, or cannot be read; the place says which. A file without a whole line has no head.
// `own`: as of ObservationReader. `started` is asked once about the first line.
Result<LogReading> ReadLog(int descriptor, const std::string& path, OwnRows own,
                           const std::function<Result<>(const LogStart&)>& started,
                           const LogVisitor& visit);

class DecisionLog {
 public:
  // Opens the log, or begins it where there is none. Fails where it was begun by another contract,
  // policy or stage, where another process has it open, and where `visit` does.
  static Result<DecisionLog> Open(const std::string& path, const LogStart& start, OwnRows own,
                                  const LogVisitor& visit);

  const std::string& head() const { return head_; }
  int64_t decisions() const { return decisions_; }
  int64_t dropped_bytes() const { return dropped_bytes_; }  // of a cut line, on opening
  const std::string& path() const { return path_; }

  Result<> Append(const LoggedMember& member, const MonitorDecision& decision);
  Result<> Sync();

 private:
  DecisionLog() = default;
  Result<> Write(const std::string& line);

  std::string path_;
  FileDescriptor file_;
  std::string head_;
  int64_t decisions_ = 0;
  int64_t dropped_bytes_ = 0;
};

}  // namespace kcc
