#include "kcc/statement/command_signer.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "kcc/base/descriptor.h"
#include "kcc/base/pipe_signal.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr size_t kErrorTailBytes = 400;

struct SignerPipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

Result<SignerPipe> NewSignerPipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return IoError(std::string("no pipe for the signing command: ") + std::strerror(errno));
  }
  return SignerPipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// The running command and our ends of its three streams. Invariant: a child that was started is
// waited for exactly once, by Wait or, on every other way out, by the destructor, which kills it
// first; so neither a process nor a zombie outlives the object.
class SignerChild {
 public:
  static Result<SignerChild> Start(const std::string& command);
  SignerChild(SignerChild&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        exit_code_(other.exit_code_),
        input_(std::move(other.input_)),
        output_(std::move(other.output_)),
        errors_(std::move(other.errors_)) {}
  SignerChild& operator=(SignerChild&&) = delete;
  ~SignerChild() {
    if (pid_ < 0) return;
    ::kill(-pid_, SIGKILL);
    (void)Wait(0);
  }

  // Feeds `bytes`, reads until both outputs end and the command with them. Null, or what went
  // wrong.
  const char* Exchange(std::string_view bytes, double timeout_s, const Clock& clock,
                       std::string* signature);
  int exit_code() const { return exit_code_; }
  const std::string& error_text() const { return error_text_; }

 private:
  SignerChild() = default;
  bool Wait(int flags);  // true: it has ended
  bool Feed(std::string_view* bytes);
  // False at the end of the stream.
  static bool Drain(FileDescriptor* from, std::string* into);

  pid_t pid_ = -1;
  int exit_code_ = 0;
  FileDescriptor input_, output_, errors_;
  std::string error_text_;
};

Result<SignerChild> SignerChild::Start(const std::string& command) {
  KCC_TRY(SignerPipe in, NewSignerPipe());
  KCC_TRY(SignerPipe out, NewSignerPipe());
  KCC_TRY(SignerPipe err, NewSignerPipe());
  std::string text = command;
  std::string shell = "/bin/sh";
  std::string flag = "-c";
  std::array<char*, 4> arguments = {shell.data(), flag.data(), text.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (posix_spawn_file_actions_init(&actions) != 0) return IoError("cannot start a program");
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return IoError("cannot start a program");
  }
  const auto redirect = [&](const FileDescriptor& end, int to) {
    return posix_spawn_file_actions_adddup2(&actions, end.get(), to) == 0;
  };
  const bool redirected = redirect(in.read_end, STDIN_FILENO) &&
                          redirect(out.write_end, STDOUT_FILENO) &&
                          redirect(err.write_end, STDERR_FILENO);
  sigset_t none;
  sigset_t defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGXFSZ);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  SignerChild child;
  // Without its streams the command would read ours and print the signature there.
  const int failed = redirected ? ::posix_spawn(&child.pid_, shell.c_str(), &actions, &attributes,
                                                arguments.data(), environ)
                                : ENOMEM;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    child.pid_ = -1;
    return IoError(std::string("cannot start /bin/sh: ") + std::strerror(failed));
  }
  child.input_ = std::move(in.write_end);
  child.output_ = std::move(out.read_end);
  child.errors_ = std::move(err.read_end);
  ::fcntl(child.input_.get(), F_SETFL, O_NONBLOCK);
  return child;
}

bool SignerChild::Feed(std::string_view* bytes) {
  const ssize_t count = ::write(input_.get(), bytes->data(), bytes->size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  bytes->remove_prefix(static_cast<size_t>(count));
  return !bytes->empty();
}

bool SignerChild::Drain(FileDescriptor* from, std::string* into) {
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(from->get(), buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  into->append(buffer.data(), static_cast<size_t>(count));
  return true;
}

const char* SignerChild::Exchange(std::string_view bytes, double timeout_s, const Clock& clock,
                                  std::string* signature) {
  const PipeSignalGuard guard;  // a command that does not read its input ends by its exit code
  const double deadline_s = clock.MonotonicSeconds() + timeout_s;
  const auto close = [](FileDescriptor* fd) { FileDescriptor gone(fd->Release()); };
  while (output_.get() >= 0 || errors_.get() >= 0) {
    const double left_s = deadline_s - clock.MonotonicSeconds();
    if (left_s <= 0) return "is not done in time";
    std::array<pollfd, 3> wait = {
        {{input_.get(), POLLOUT, 0}, {output_.get(), POLLIN, 0}, {errors_.get(), POLLIN, 0}}};
    constexpr double kLongestWaitMs = 1e6;
    const double wait_ms = std::min(left_s * 1e3 + 1, kLongestWaitMs);
    if (::poll(wait.data(), wait.size(), static_cast<int>(wait_ms)) < 0) {
      if (errno == EINTR) continue;
      return "cannot be waited for";
    }
    if (wait[0].fd >= 0 && wait[0].revents != 0 && !Feed(&bytes)) close(&input_);
    if (wait[1].fd >= 0 && wait[1].revents != 0 && !Drain(&output_, signature)) close(&output_);
    if (wait[2].fd >= 0 && wait[2].revents != 0 && !Drain(&errors_, &error_text_)) close(&errors_);
    if (signature->size() > kSignatureBytesMax) return "writes more than a signature can have";
    if (error_text_.size() > kErrorTailBytes) {
      error_text_.erase(0, error_text_.size() - kErrorTailBytes);
    }
  }
  // It may close its outputs and go on; the limit holds for that too.
  close(&input_);
  while (!Wait(WNOHANG)) {
    if (clock.MonotonicSeconds() >= deadline_s) return "is not done in time";
    constexpr int kLookAgainMs = 5;
    (void)::poll(nullptr, 0, kLookAgainMs);
  }
  return nullptr;
}

bool SignerChild::Wait(int flags) {
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, flags)) < 0 && errno == EINTR) {
  }
  if (ended == 0) return false;
  pid_ = -1;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

class ProgramSigner final : public Signer {
 public:
  ProgramSigner(std::string command, PublicKey public_key, double timeout_s, const Clock& clock)
      : command_(std::move(command)),
        public_key_(std::move(public_key)),
        timeout_s_(timeout_s),
        clock_(clock) {}
  const PublicKey& public_key() const override { return public_key_; }

 private:
  Result<std::string> MakeSignature(std::string_view bytes) const override {
    KCC_TRY(SignerChild child, SignerChild::Start(command_));
    std::string signature;
    const char* problem = child.Exchange(bytes, timeout_s_, clock_, &signature);
    if (problem != nullptr) {
      return Failed(std::string(problem) + " (limits: " + ReadableNumber(timeout_s_) + " s, " +
                        std::to_string(kSignatureBytesMax) + " bytes)",
                    child.error_text());
    }
    if (child.exit_code() != 0) {
      return Failed("ended with exit code " + std::to_string(child.exit_code()),
                    child.error_text());
    }
    if (signature.empty()) return Failed("wrote no signature", child.error_text());
    return signature;
  }

  Error Failed(const std::string& what, std::string_view said) const {
    while (said.ends_with('\n')) said.remove_suffix(1);
    return IoError("the signing command '" + command_ + "' " + what +
                   (said.empty() ? "" : "; it said: " + std::string(said)));
  }

  std::string command_;
  PublicKey public_key_;
  double timeout_s_;
  const Clock& clock_;
};

}  // namespace

std::unique_ptr<Signer> CommandSigner(std::string command, PublicKey public_key, double timeout_s,
                                      const Clock& clock) {
  return std::make_unique<ProgramSigner>(std::move(command), std::move(public_key), timeout_s,
                                         clock);
}

}  // namespace kcc
