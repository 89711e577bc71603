#include "kcc/kernel/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kcc {
namespace {

// After fork() nothing but system calls: another thread may have held the lock of malloc or of
// anything else when this process was copied.

using Pipe = std::array<int, 2>;

bool MakePipe(Pipe* ends) { return ::pipe2(ends->data(), O_CLOEXEC) == 0; }

// In the program's process. Returns only if it cannot be executed.
void Execute(char* const* words, std::array<int, 3> streams, pid_t supervisor) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the supervisor has one thread, so this is its end
  if (::getppid() != supervisor) ::_exit(127);
  // A clean slate: kcc may have blocked or caught signals that the program should die of.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Above the standard ones first, so that no dup2 closes a stream that is still to be moved.
  for (int& stream : streams) stream = ::fcntl(stream, F_DUPFD_CLOEXEC, 3);
  for (int i = 0; i < 3; ++i) {
    if (::dup2(streams[static_cast<size_t>(i)], i) < 0) return;
  }
  ::execvp(words[0], words);
}

// The call itself, not glibc's function, which came three years after it (2.34). Where the kernel
// is older still (before 5.9), one by one: a limit may be in the billions, so not up to every
// limit.
void CloseRange(unsigned first, unsigned last) {
  if (::syscall(SYS_close_range, first, last, 0u) == 0) return;
  constexpr unsigned kHighest = 1 << 16;
  for (unsigned at = first; at <= std::min(last, kHighest); ++at) ::close(static_cast<int>(at));
}

// Every descriptor of the process that was copied, but two.
void CloseAllBut(int a, int b) {
  const auto low = static_cast<unsigned>(std::min(a, b));
  const auto high = static_cast<unsigned>(std::max(a, b));
  if (low > 0) CloseRange(0, low - 1);
  if (low + 1 < high) CloseRange(low + 1, high - 1);
  CloseRange(high + 1, ~0u);
}

// The parent of a process, from "PID (NAME) STATE PPID …", where NAME may hold anything; 0:
// unknown.
pid_t ParentOf(int proc, const char* name) {
  std::array<char, 512> text;
  const int directory = ::openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return 0;
  const int file = ::openat(directory, "stat", O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? 0 : ::read(file, text.data(), text.size());
  ::close(file);
  ::close(directory);
  const std::string_view stat(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  const size_t bracket = stat.rfind(')');
  if (bracket == std::string_view::npos || bracket + 4 >= stat.size()) return 0;
  pid_t parent = 0;
  for (size_t i = bracket + 4; i < stat.size() && stat[i] >= '0' && stat[i] <= '9'; ++i) {
    parent = parent * 10 + (stat[i] - '0');
  }
  return parent;
}

// Kills the children of this process. What they leave becomes its own and goes in the next round.
// A child that is not waited for keeps its number, so no other process can be hit. False where no
// /proc tells of them.
bool KillChildren() {
  struct Entry {  // of getdents64
    uint64_t inode;
    int64_t offset;
    uint16_t size;
    uint8_t type;
    char name[1];
  };
  const pid_t self = ::getpid();
  const int proc = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return false;
  alignas(Entry) std::array<char, 4096> block;
  for (;;) {
    const long size = ::syscall(SYS_getdents64, proc, block.data(), block.size());
    if (size <= 0) break;
    for (long at = 0; at < size;) {
      const char* entry = block.data() + at;
      uint16_t length = 0;
      std::memcpy(&length, entry + offsetof(Entry, size), sizeof length);
      const char* name = entry + offsetof(Entry, name);
      at += length;
      pid_t pid = 0;
      for (const char* c = name; *c >= '0' && *c <= '9'; ++c) pid = pid * 10 + (*c - '0');
      if (pid > 1 && ParentOf(proc, name) == self) ::kill(pid, SIGKILL);
    }
  }
  ::close(proc);
  return true;
}

// Invariant: as long as anything runs that the program started, the supervisor runs and is its
// ancestor, since it is a subreaper: who loses its parent becomes its child. Example: the program
// starts a daemon and exits. The daemon becomes the supervisor's child. When kcc closes `control`,
// or ends (`starter`), EndAll kills children, round by round, until there is none.
struct Supervisor {
  int control = -1;
  int status = -1;
  int signals = -1;  // signalfd of SIGCHLD
  pid_t program = -1;
  bool ended = false;

  // Waits for what has ended; false if there is no child left.
  bool Reap() {
    signalfd_siginfo ignored;
    while (::read(signals, &ignored, sizeof ignored) > 0) {
    }
    int how = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &how, WNOHANG)) > 0) {
      if (pid != program) continue;
      ended = true;
      EndNotice notice;
      notice.code = WIFEXITED(how) ? CLD_EXITED : CLD_KILLED;
      notice.status = WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how);
      (void)!::write(status, &notice, sizeof notice);
    }
    return pid == 0 || errno != ECHILD;
  }

  [[noreturn]] void EndAll() {
    if (!ended) ::kill(-program, SIGKILL);
    while (Reap()) {
      constexpr int kRoundMs = 10;
      if (!KillChildren() && ended) break;
      pollfd child{signals, POLLIN, 0};
      ::poll(&child, 1, kRoundMs);
    }
    ::_exit(0);
  }

  [[noreturn]] void Watch(int starter) {
    std::array<pollfd, 3> polled = {
        {{control, POLLIN, 0}, {signals, POLLIN, 0}, {starter, POLLIN, 0}}};
    for (;;) {
      if (::poll(polled.data(), polled.size(), -1) < 0) continue;
      if (polled[1].revents != 0) Reap();
      if (polled[2].revents != 0) EndAll();
      if (polled[0].revents == 0) continue;
      char order = 0;
      if (::read(control, &order, 1) != 1) EndAll();
      if (order == Supervised::kTerminate && !ended) ::kill(-program, SIGTERM);
    }
  }
};

// In the supervisor's process.
[[noreturn]] void Supervise(char* const* words, const std::array<int, 3>& streams, int control,
                            int status, int starter) {
  ::setsid();
  ::prctl(PR_SET_NAME, "kcc-supervisor");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::signal(SIGCHLD, SIG_DFL);  // ignored, as some parents leave it, children go without a word
  const pid_t self = ::getpid();
  int failed = 0;
  Pipe executed;  // the program's end of it is closed by its execution, or tells why there is none
  pid_t program = -1;
  if (!MakePipe(&executed) || (program = ::fork()) < 0) failed = errno;
  if (program == 0) {
    Execute(words, streams, self);
    failed = errno;
    (void)!::write(executed[1], &failed, sizeof failed);
    ::_exit(127);
  }
  if (failed == 0) {
    ::close(executed[1]);
    while (::read(executed[0], &failed, sizeof failed) < 0 && errno == EINTR) {
    }
  }
  (void)!::write(status, &failed, sizeof failed);
  if (failed != 0) ::_exit(127);
  CloseAllBut(control, status);
  Supervisor supervisor{control, status, -1, program};
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  supervisor.signals = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  supervisor.Watch(static_cast<int>(::syscall(SYS_pidfd_open, starter, 0)));
}

void CloseBoth(const Pipe& ends) {
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace

Result<Supervised> StartSupervised(const std::vector<std::string>& command,
                                   const std::array<int, 3>& streams) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const auto cannot = [&](int error) {
    return IoError("cannot start '" + command[0] + "': " + std::strerror(error));
  };
  Pipe control;
  Pipe status;
  if (!MakePipe(&control)) return cannot(errno);
  if (!MakePipe(&status)) {
    const int error = errno;
    CloseBoth(control);
    return cannot(error);
  }
  const pid_t starter = ::getpid();
  Supervised started;
  started.supervisor = ::fork();
  if (started.supervisor == 0) {
    ::close(control[1]);
    ::close(status[0]);
    Supervise(words.data(), streams, control[0], status[1], starter);
  }
  int failed = started.supervisor < 0 ? errno : 0;
  ::close(control[0]);
  ::close(status[1]);
  if (failed == 0) {
    ssize_t size = 0;
    while ((size = ::read(status[0], &failed, sizeof failed)) < 0 && errno == EINTR) {
    }
    if (size != sizeof failed) failed = ECHILD;  // the supervisor was killed before it began
  }
  if (failed != 0) {
    ::close(control[1]);
    ::close(status[0]);
    while (started.supervisor > 0 && ::waitpid(started.supervisor, nullptr, 0) < 0 &&
           errno == EINTR) {
    }
    return cannot(failed);
  }
  started.control = control[1];
  started.status = status[0];
  return started;
}

}  // namespace kcc
