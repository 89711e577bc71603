#include "apps/kcc/run_tool.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "kcc/base/clock.h"
#include "kcc/base/strings.h"

namespace kcc::cli {
namespace {

constexpr size_t kPrintedMax = size_t{1} << 20;

// A pipe whose ends close themselves, and not with every other program that kcc starts.
struct Pipe {
  std::array<int, 2> ends = {-1, -1};
  Pipe() { (void)::pipe2(ends.data(), O_CLOEXEC); }
  ~Pipe() {
    Close(0);
    Close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void Close(size_t end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
};

// What a program's descriptors are to be. Each step takes memory, and one that failed would leave
// the program a stream of kcc's own.
class Redirections {
 public:
  Redirections() { Check(::posix_spawn_file_actions_init(&actions_)); }
  ~Redirections() { ::posix_spawn_file_actions_destroy(&actions_); }
  Redirections(const Redirections&) = delete;
  Redirections& operator=(const Redirections&) = delete;

  void Empty(int fd) {
    Check(::posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null", O_RDONLY, 0));
  }
  void To(int from, int fd) { Check(::posix_spawn_file_actions_adddup2(&actions_, from, fd)); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  static void Check(int failed) {
    if (failed != 0) throw std::bad_alloc();
  }

  posix_spawn_file_actions_t actions_;
};

// A program that was started. Unless it was waited for it is killed, also where what it prints
// finds no memory.
class Program {
 public:
  Program() = default;
  ~Program() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    Wait();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // 0, or the reason why it cannot be started.
  int Start(const std::vector<std::string>& command, const Pipe& out, const Pipe& err) {
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    Redirections streams;
    streams.Empty(STDIN_FILENO);
    streams.To(out.ends[1], STDOUT_FILENO);
    streams.To(err.ends[1], STDERR_FILENO);
    pid_t pid = -1;
    const int failed =
        ::posix_spawnp(&pid, arguments[0], streams.get(), nullptr, arguments.data(), environ);
    if (failed == ENOMEM) throw std::bad_alloc();
    if (failed == 0) pid_ = pid;
    return failed;
  }

  // Its status, once it has ended.
  int Wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
};

// Reads both until they end, so that neither can block the program. Null, or what went wrong.
const char* Drain(Pipe* out, Pipe* err, double deadline_s, ToolRun* run) {
  const SystemClock clock;
  std::array<char, 4096> buffer{};
  while (out->ends[0] >= 0 || err->ends[0] >= 0) {
    const double left_s = deadline_s - clock.MonotonicSeconds();
    if (left_s <= 0) return "does not end";
    std::array<pollfd, 2> wait = {{{out->ends[0], POLLIN, 0}, {err->ends[0], POLLIN, 0}}};
    if (::poll(wait.data(), wait.size(), static_cast<int>(left_s * 1e3) + 1) < 0) {
      if (errno == EINTR) continue;
      return "cannot be waited for";
    }
    for (size_t i = 0; i < wait.size(); ++i) {
      if (wait[i].fd < 0 || wait[i].revents == 0) continue;
      const ssize_t count = ::read(wait[i].fd, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        (i == 0 ? out : err)->Close(0);
        continue;
      }
      std::string& text = i == 0 ? run->out : run->err;
      text.append(buffer.data(), static_cast<size_t>(count));
      if (text.size() > kPrintedMax) return "prints without end";
    }
  }
  return nullptr;
}

}  // namespace

Result<ToolRun> RunTool(const std::vector<std::string>& command, double timeout_s) {
  Pipe out;
  Pipe err;
  if (out.ends[0] < 0 || err.ends[0] < 0) return IoError("no pipe for " + command[0]);
  Program program;
  if (const int failed = program.Start(command, out, err); failed != 0) {
    return IoError("cannot start '" + command[0] + "': " + std::strerror(failed));
  }
  out.Close(1);
  err.Close(1);
  ToolRun run;
  const SystemClock clock;
  if (const char* problem = Drain(&out, &err, clock.MonotonicSeconds() + timeout_s, &run)) {
    return IoError("'" + command[0] + "' " + problem + " within " + ReadableNumber(timeout_s) +
                   " s");
  }
  const int status = program.Wait();
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

std::string LastLine(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

}  // namespace kcc::cli
