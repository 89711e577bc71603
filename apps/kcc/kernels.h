// Kernels as commands use them: the schemes that this program links, and a run that a signal stops
// in the ordinary way, so that every program it started and every file it made goes with it.
#pragma once

#include <string>
#include <vector>

#include "apps/kcc/commands.h"
#include "kcc/kernel/request_source.h"
#include "kcc/kernel/stream.h"
#include "kcc/kernel/uri.h"

namespace kcc::cli {

// The one table of kernels; a further kind is a line here.
// The console, which says where the lab's model may lie, outlives the table.
std::vector<KernelScheme> KernelSchemes(const Console& console);

// The directory, if the URI names a trace.
Result<std::optional<std::string>> TraceDirectoryOf(const std::string& uri);

// While it lives SIGINT, SIGTERM and SIGHUP do not end the process but make stop_fd() readable.
// At its end the signal that came is handed to the console, and main.cc ends by it. One at a time.
class Interruptible {
 public:
  explicit Interruptible(Console& console);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  int stop_fd() const;
  // For work that waits for nothing: whether it is to end.
  bool stop_asked() const;
  // The same from within: one kernel failed, and the other need not finish.
  void Stop() const;

 private:
  Console& console_;
};

KernelOpenOptions OpenOptionsOf(const KernelFlags& flags, const Interruptible& interruptible);
// Without what only measuring needs.
StreamOptions StreamOptionsOf(const KernelFlags& flags, const Interruptible& interruptible);

// --scratch, or the system's directory for temporary files.
std::string ScratchDirectory(const std::string& given);

// --requests: a file, or the directory of a trace.
Result<std::unique_ptr<RequestSource>> OpenRequests(const KernelFlags& flags, RequestUse use,
                                                    SampledBy sampled_by);

// --sampled-by, or what it is otherwise.
SampledBy SampledByOf(const KernelFlags& flags, SampledBy otherwise);

}  // namespace kcc::cli
