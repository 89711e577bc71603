// A child that is spoken to in lines: one goes to its standard input, one comes back from its
// standard output, while its standard error is drained and its end remembered.
//
// The child leads its own session, so that its whole group can be ended and a terminal's signals
// reach kcc alone. Between kcc and the child stands a supervisor (supervisor.h), so that nothing
// the child started is left, even if kcc is killed. One poll loop serves all descriptors: neither
// side can block the other, and no thread is needed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

class ChildProcess {
 public:
  static constexpr size_t kLineBytesMax = size_t{64} << 20;
  static constexpr size_t kTailBytesMax = 4096;

  // Fails if the program cannot be started at all. `stop_fd`: KernelOpenOptions.
  static Result<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& command,
                                                     int stop_fd);
  // Ends the child, by SIGKILL if need be, and then everything it has started, in whichever
  // session.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Sends a line (without its end) and waits for the answer's. Fails, in words and without a place,
  // if the child ends, closes its output, says something before it was asked, writes an endless
  // line, or says nothing in time; and with InterruptedError if stop_fd becomes readable.
  Result<std::string> Ask(std::string_view line, double timeout_s);

  // Sends a last line, closes its input and waits for its end: true if it ended by itself in time.
  bool Part(std::string_view line, double timeout_s);

  // The last lines of its standard error, printable.
  std::string StderrTail() const;

 private:
  class Descriptor;  // owns a file descriptor
  struct Streams;
  explicit ChildProcess(std::unique_ptr<Streams> streams);

  enum class Wake { kReady, kTimeout, kStop };
  Wake Wait(double seconds, bool with_stop);
  void Write();
  void ReadOutput();
  void ReadErrors();
  bool TakeLine(std::string* line);
  void TakeEnd();
  Error Ended() const;

  pid_t supervisor_ = -1;  // not started
  std::unique_ptr<Streams> streams_;
};

}  // namespace kcc
