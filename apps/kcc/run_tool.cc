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

// 0, or the reason why it cannot be started.
int Spawn(const std::vector<std::string>& command, const Pipe& out, const Pipe& err, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  if (const int failed = posix_spawn_file_actions_init(&actions); failed != 0) return failed;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int failed =
      ::posix_spawnp(pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

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
  pid_t pid = -1;
  if (out.ends[0] < 0 || err.ends[0] < 0) return IoError("no pipe for " + command[0]);
  if (const int failed = Spawn(command, out, err, &pid); failed != 0) {
    return IoError("cannot start '" + command[0] + "': " + std::strerror(failed));
  }
  out.Close(1);
  err.Close(1);
  ToolRun run;
  const SystemClock clock;
  const char* problem = Drain(&out, &err, clock.MonotonicSeconds() + timeout_s, &run);
  if (problem != nullptr) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (problem != nullptr) {
    return IoError("'" + command[0] + "' " + problem + " within " + ReadableNumber(timeout_s) +
                   " s");
  }
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

std::string LastLine(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

}  // namespace kcc::cli
