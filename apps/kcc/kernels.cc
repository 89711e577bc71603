#include "apps/kcc/kernels.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include "apps/kcc/shipped.h"
#include "kcc/base/check.h"
#include "kcc/kernel/exec_kernel.h"
#include "kcc/kernel/repeat_requests.h"
#include "kcc/kernel/server_kernel.h"
#include "kcc/kernel/trace_kernel.h"
#include "kcc/lab/lab_kernel.h"

namespace kcc::cli {
namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

// A handler reaches nothing but globals.
std::array<int, 2> stop_pipe = {-1, -1};
volatile std::sig_atomic_t signal_that_came = 0;
std::array<struct sigaction, kSignals.size()> actions_before;

void WriteStop() {
  const int before = errno;
  [[maybe_unused]] const ssize_t n = ::write(stop_pipe[1], "x", 1);  // full: it stops already
  errno = before;
}

// Signals become a byte in a pipe. Whoever waits polls the pipe beside what it waits for, fails in
// the ordinary way, and destructors end programs and remove files. Nothing but write(2) and a flag
// is touched in the handler: anything else may be in the middle of being changed. The pipe is not
// emptied, so that every later wait ends at once too.
extern "C" void HandleSignal(int signal) {
  signal_that_came = signal;
  WriteStop();
}

}  // namespace

std::vector<KernelScheme> KernelSchemes(const Console& console) {
  return {TraceScheme(), ExecScheme(), ServerScheme(false), ServerScheme(true),
          LabScheme(ShippedModelOf(console))};
}

Result<std::optional<std::string>> TraceDirectoryOf(const std::string& uri) {
  KCC_TRY(KernelUri parsed, ParseKernelUri(uri));
  if (parsed.scheme != "trace") return std::optional<std::string>();
  KCC_TRY_VOID(CheckTraceUri(parsed));
  return std::optional<std::string>(std::move(parsed.rest));
}

Interruptible::Interruptible(Console& console) : console_(console) {
  KCC_CHECK(stop_pipe[0] < 0);
  if (::pipe2(stop_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) stop_pipe = {-1, -1};
  // What came before this command is not its business.
  signal_that_came = 0;
  struct sigaction action {};
  action.sa_handler = HandleSignal;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &actions_before[i]);
    // What nohup or a background shell ignores stays ignored.
    if (actions_before[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interruptible::~Interruptible() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &actions_before[i], nullptr);
  }
  for (int& end : stop_pipe) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
  console_.interrupted_by = signal_that_came;
}

int Interruptible::stop_fd() const { return stop_pipe[0]; }

bool Interruptible::stop_asked() const {
  pollfd waiting{stop_fd(), POLLIN, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

void Interruptible::Stop() const { WriteStop(); }

KernelOpenOptions OpenOptionsOf(const KernelFlags& flags, const Interruptible& interruptible) {
  KernelOpenOptions options;
  options.start_timeout_s = flags.start_timeout_s;
  options.batch_timeout_s = flags.batch_timeout_s;
  options.stop_fd = interruptible.stop_fd();
  return options;
}

StreamOptions StreamOptionsOf(const KernelFlags& flags, const Interruptible& interruptible) {
  StreamOptions options;
  options.batch_requests = flags.batch;
  options.stop = [&interruptible] { interruptible.Stop(); };
  options.scratch = ScratchDirectory(flags.scratch);
  return options;
}

std::string ScratchDirectory(const std::string& given) {
  if (!given.empty()) return given;
  std::error_code failed;
  const std::string usual = std::filesystem::temp_directory_path(failed).string();
  return usual.empty() ? "/tmp" : usual;
}

SampledBy SampledByOf(const KernelFlags& flags, SampledBy otherwise) {
  return ParseSampledBy(flags.sampled_by).value_or(otherwise);
}

Result<std::unique_ptr<RequestSource>> OpenRequests(const KernelFlags& flags, RequestUse use,
                                                    SampledBy sampled_by) {
  std::error_code ignored;
  const bool trace = std::filesystem::is_directory(flags.requests, ignored);
  KCC_TRY(std::unique_ptr<RequestSource> source,
          trace ? OpenTraceRequests(flags.requests)
                : OpenRequestFile(flags.requests, use, SampledByOf(flags, sampled_by),
                                  flags.sampling_temperature));
  return RepeatRequests(std::move(source), flags.repeat);
}

}  // namespace kcc::cli
