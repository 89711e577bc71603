// A program started under a process of ours that outlives nobody: the supervisor is the parent of
// the program and, as a subreaper, of everything the program started and left, sessions of their
// own or not. When it is told to, or when the process that started it is gone for whatever reason,
// it kills them all and ends.
//
// It is forked, not executed, and makes system calls alone, so it can be started from any thread
// and changes nothing in the process that starts it. Linux.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

struct Supervised {
  pid_t supervisor = -1;
  // Written: kTerminate sends SIGTERM to the program's group. Closed: everything is killed.
  int control = -1;
  // Read: one EndNotice once the program has ended; end of file if the supervisor itself was
  // killed.
  int status = -1;

  static constexpr char kTerminate = 't';
};

// As waitid says it: CLD_EXITED and an exit code, or another code and a signal.
struct EndNotice {
  int code = 0;
  int status = 0;
};

// Starts the program as the leader of a session with `streams` as its standard input, output and
// error. Fails if it cannot be executed. The caller closes both descriptors and waits for the
// supervisor.
Result<Supervised> StartSupervised(const std::vector<std::string>& command,
                                   const std::array<int, 3>& streams);

}  // namespace kcc
