// A decision log as a file: appended to, never changed, one writer at a time.
//
// Every line is written with one call as soon as it is decided, so that a process that is killed
// leaves at most its last line cut; Sync makes lines outlast the machine as well. On opening, a log
// that is there is read from its start: every line must name the digest of the one before. A cut
// last line is dropped and said to be. A log that has grown can go on in a new file (log_files.h);
// opening it then reads the newest alone.
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
  int64_t decisions = 0;    // lines of this file after the first
  int64_t start_bytes = 0;  // to the end of the first
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
  // policy or stage, where another process has it open, and where `begun`, asked once about the
  // first line of one that is there, or `visit` does.
  using StartVisitor = std::function<Result<>(const LogStart&)>;
  static Result<DecisionLog> Open(const std::string& path, const LogStart& start, OwnRows own,
                                  const StartVisitor& begun, const LogVisitor& visit);

  // Puts what stands under `path`, if anything does, aside, and begins a file that goes on from
  // `start.before`, which another log has recorded. Fails where another process has it open, and
  // where what is there is no log; nothing has changed then.
  static Result<> BeginFrom(const std::string& path, const LogStart& start);

  const std::string& head() const { return head_; }
  int64_t decisions() const { return decisions_; }  // in all files
  int64_t bytes() const {
    return bytes_ - start_bytes_;
  }  // of the newest file, its first line left out
  int64_t dropped_bytes() const { return dropped_bytes_; }  // of a cut line, on opening
  const std::string& path() const { return path_; }

  Result<> Append(const LoggedMember& member, const MonitorDecision& decision);
  Result<> Sync();
  // Goes on in a new file; `start.before` says where. False: the new file could not be made, why
  // is in `*why`, and the log goes on in the old one. After a failure it must be opened again.
  Result<bool> BeginNextFile(const LogStart& start, std::string* why);

 private:
  DecisionLog() = default;
  Result<> Write(const std::string& line);

  std::string path_;
  FileDescriptor file_;
  std::string head_;
  int64_t decisions_ = 0;
  int64_t start_bytes_ = 0;
  int64_t bytes_ = 0;
  int64_t dropped_bytes_ = 0;
};

}  // namespace kcc
