#include "kcc/kernel/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

#include "kcc/base/pipe_signal.h"
#include "kcc/base/strings.h"
#include "kcc/kernel/supervisor.h"
#include "kcc/kernel/uri.h"

namespace kcc {
namespace {

constexpr double kTerminateSeconds = 2;  // between SIGTERM and SIGKILL
constexpr double kEndAfterCloseSeconds = 1;
constexpr size_t kReadBytes = size_t{1} << 16;
constexpr size_t kTailLinesMax = 20;

double Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// What a program wrote, as far as a message needs it; escape sequences must not reach a terminal.
std::string Printable(std::string_view text) {
  std::string printable;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\r') {
      printable += '\n';
    } else {
      printable += c == '\n' || c == '\t' || (byte >= 0x20 && byte != 0x7f) ? c : '?';
    }
  }
  size_t bad = 0;
  while (!IsUtf8(printable, &bad)) printable[bad] = '?';
  return printable;
}

std::string Sample(std::string_view text) {
  constexpr size_t kBytesMax = 80;
  return "'" + Printable(text.substr(0, std::min(text.find('\n'), kBytesMax))) + "'";
}

std::string Errno(const std::string& what) { return what + ": " + std::strerror(errno); }

}  // namespace

class ChildProcess::Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { Close(); }

  void Close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void SetNonBlocking() const { ::fcntl(number_, F_SETFL, O_NONBLOCK); }

 private:
  int number_ = -1;
};

struct ChildProcess::Streams {
  Descriptor input;  // we write
  Descriptor output;
  Descriptor errors;
  Descriptor control;  // of the supervisor
  Descriptor end;      // its notice that the program has ended
  int stop = -1;       // not owned
  std::string unsent;
  std::string received;
  size_t scanned = 0;  // of `received`: holds no line end
  std::string tail;
  bool ended = false;
  EndNotice how;  // once ended; a code of 0 where the supervisor was killed
};

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::vector<std::string>& command,
                                                          int stop_fd) {
  auto streams = std::make_unique<Streams>();
  streams->stop = stop_fd;
  std::array<Descriptor, 3> theirs;
  std::array<Descriptor*, 3> ours = {&streams->input, &streams->output, &streams->errors};
  for (size_t i = 0; i < 3; ++i) {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return IoError(Errno("cannot make a pipe"));
    const bool we_write = i == 0;
    *ours[i] = Descriptor(we_write ? ends[1] : ends[0]);
    theirs[i] = Descriptor(we_write ? ends[0] : ends[1]);
    ours[i]->SetNonBlocking();
  }
  // Made before the program is started, since its destructor ends and reaps it.
  std::unique_ptr<ChildProcess> child(new ChildProcess(std::move(streams)));
  KCC_TRY(const Supervised started,
          StartSupervised(command, {theirs[0].number(), theirs[1].number(), theirs[2].number()}));
  child->supervisor_ = started.supervisor;
  child->streams_->control = Descriptor(started.control);
  child->streams_->end = Descriptor(started.status);
  child->streams_->end.SetNonBlocking();
  return child;
}

ChildProcess::ChildProcess(std::unique_ptr<Streams> streams) : streams_(std::move(streams)) {}

ChildProcess::~ChildProcess() {
  if (supervisor_ < 0) return;  // was not started
  Streams& s = *streams_;
  s.input.Close();
  if (!s.ended) {
    const PipeSignalGuard guard;
    (void)!::write(s.control.number(), &Supervised::kTerminate, 1);
  }
  try {
    for (const double until = Now() + kTerminateSeconds; !s.ended && Now() < until;) {
      s.received.clear();  // nobody asks any more
      Wait(until - Now(), /*with_stop=*/false);
    }
  } catch (const std::exception&) {  // no memory for what it still says
  }
  // Whatever it started, and whatever those started, goes too.
  s.control.Close();
  while (::waitpid(supervisor_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// One round of poll: moves what can be moved.
ChildProcess::Wake ChildProcess::Wait(double seconds, bool with_stop) {
  Streams& s = *streams_;
  const auto wanted = [](const Descriptor& d, bool want) { return want ? d.number() : -1; };
  std::array<pollfd, 5> polled = {{
      {wanted(s.input, !s.unsent.empty()), POLLOUT, 0},
      {s.output.number(), POLLIN, 0},
      {s.errors.number(), POLLIN, 0},
      {wanted(s.end, !s.ended), POLLIN, 0},
      {with_stop ? s.stop : -1, POLLIN, 0},
  }};
  const auto ms = static_cast<int>(std::ceil(std::clamp(seconds, 0.0, 1e6) * 1000));
  const int ready = ::poll(polled.data(), polled.size(), ms);
  if (ready < 0) return Wake::kReady;  // EINTR: the caller looks at the clock and comes back
  if (ready == 0) return Wake::kTimeout;
  if (polled[4].revents != 0) return Wake::kStop;
  if (polled[0].revents != 0) Write();
  if (polled[3].revents != 0) TakeEnd();  // seen before reading, so that nothing is missed
  if (polled[1].revents != 0 || s.ended) ReadOutput();
  if (polled[2].revents != 0 || s.ended) ReadErrors();
  return Wake::kReady;
}

void ChildProcess::Write() {
  Streams& s = *streams_;
  const PipeSignalGuard guard;
  const ssize_t n = ::write(s.input.number(), s.unsent.data(), s.unsent.size());
  if (n > 0) {
    s.unsent.erase(0, static_cast<size_t>(n));
  } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
    s.input.Close();  // nobody reads: what it still says, or its end, tells why
    s.unsent.clear();
  }
}

void ChildProcess::ReadOutput() {
  Streams& s = *streams_;
  std::array<char, kReadBytes> block;
  while (s.output.is_open() && s.received.size() <= kLineBytesMax) {
    const ssize_t n = ::read(s.output.number(), block.data(), block.size());
    if (n > 0) {
      s.received.append(block.data(), static_cast<size_t>(n));
    } else if (n == 0) {
      s.output.Close();
    } else if (errno != EINTR) {
      return;
    }
  }
}

void ChildProcess::ReadErrors() {
  Streams& s = *streams_;
  std::array<char, kReadBytes> block;
  // Bounded: a flood must not keep kcc from looking at the clock.
  for (int i = 0; i < 16 && s.errors.is_open(); ++i) {
    const ssize_t n = ::read(s.errors.number(), block.data(), block.size());
    if (n > 0) {
      s.tail.append(block.data(), static_cast<size_t>(n));
      if (s.tail.size() > kTailBytesMax) s.tail.erase(0, s.tail.size() - kTailBytesMax);
    } else if (n == 0) {
      s.errors.Close();
    } else if (errno != EINTR) {
      return;
    }
  }
}

bool ChildProcess::TakeLine(std::string* line) {
  Streams& s = *streams_;
  const size_t end = s.received.find('\n', s.scanned);
  s.scanned = end == std::string::npos ? s.received.size() : 0;
  if (end == std::string::npos) return false;
  *line = s.received.substr(0, end);
  s.received.erase(0, end + 1);
  return true;
}

void ChildProcess::TakeEnd() {
  Streams& s = *streams_;
  const ssize_t size = ::read(s.end.number(), &s.how, sizeof s.how);
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
  s.ended = true;
}

namespace {

// What programs are usually ended by. glibc has all names since 2.32 only.
std::string_view SignalName(int signal) {
  switch (signal) {
    case SIGHUP:
      return "SIGHUP";
    case SIGINT:
      return "SIGINT";
    case SIGQUIT:
      return "SIGQUIT";
    case SIGILL:
      return "SIGILL";
    case SIGTRAP:
      return "SIGTRAP";
    case SIGABRT:
      return "SIGABRT";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGKILL:
      return "SIGKILL";
    case SIGSEGV:
      return "SIGSEGV";
    case SIGPIPE:
      return "SIGPIPE";
    case SIGALRM:
      return "SIGALRM";
    case SIGTERM:
      return "SIGTERM";
    case SIGXCPU:
      return "SIGXCPU";
    case SIGXFSZ:
      return "SIGXFSZ";
    case SIGSYS:
      return "SIGSYS";
    default:
      return {};
  }
}

}  // namespace

Error ChildProcess::Ended() const {
  const EndNotice& how = streams_->how;
  if (how.code == 0) return IoError("the program was ended: somebody killed its supervisor");
  if (how.code == CLD_EXITED) {
    return IoError("the program ended with exit code " + std::to_string(how.status) +
                   " instead of an answer");
  }
  const std::string_view name = SignalName(how.status);
  return IoError("the program was ended by signal " + std::to_string(how.status) +
                 (name.empty() ? "" : " (" + std::string(name) + ")"));
}

// One line out, one line back, in turn. Invariant between questions: `received` and `unsent` are
// empty. What stands in `received` before a question was not asked for, and would be taken for the
// answer to it; what stands in `unsent` at the answer was not read before it was given. Example: a
// program answers one question twice. Without the check, each answer from then on would be taken
// for that of the next question.
Result<std::string> ChildProcess::Ask(std::string_view line, double timeout_s) {
  Streams& s = *streams_;
  ReadOutput();
  if (!s.received.empty()) {
    return IoError(
        "the program wrote to its standard output without being asked: " + Sample(s.received) +
        "; only answers go there (docs/exec-protocol.md), all else to standard error");
  }
  s.unsent.assign(line).push_back('\n');
  double until = Now() + timeout_s;
  bool closed = false;
  while (true) {
    std::string answer;
    if (TakeLine(&answer)) {
      if (!s.unsent.empty()) {
        return IoError("the program answered before it had read the question");
      }
      return answer;
    }
    if (s.received.size() > kLineBytesMax) {
      return IoError("the program's answer is longer than " + std::to_string(kLineBytesMax) +
                     " bytes");
    }
    if (s.ended) return Ended();
    // A program that ends closes its output first; its end says more.
    if (!closed && !s.output.is_open()) {
      closed = true;
      until = std::min(until, Now() + kEndAfterCloseSeconds);
    }
    const double left = until - Now();
    if (left <= 0 && closed) return IoError("the program closed its standard output");
    if (left <= 0) {
      return IoError("the program did not answer within " + ReadableNumber(timeout_s) + " s");
    }
    if (Wait(left, /*with_stop=*/true) == Wake::kStop) return InterruptedError();
  }
}

bool ChildProcess::Part(std::string_view line, double timeout_s) {
  Streams& s = *streams_;
  s.unsent.assign(line).push_back('\n');
  const double until = Now() + timeout_s;
  while (!s.ended && Now() < until) {
    if (s.unsent.empty()) s.input.Close();
    if (s.received.size() > kReadBytes) s.received.clear();  // nobody asks any more
    if (Wait(until - Now(), /*with_stop=*/true) == Wake::kStop) return false;
  }
  return s.ended;
}

std::string ChildProcess::StderrTail() const {
  std::string_view tail = streams_->tail;
  while (!tail.empty() && tail.back() == '\n') tail.remove_suffix(1);
  size_t begin = tail.size();
  for (size_t lines = 0; begin > 0 && lines < kTailLinesMax; ++lines) {
    const size_t end_of_previous = tail.rfind('\n', begin - 1);
    begin = end_of_previous == std::string_view::npos ? 0 : end_of_previous;
  }
  return Printable(tail.substr(begin > 0 ? begin + 1 : 0));
}

}  // namespace kcc
