// Kernel URIs: `scheme:rest?options`, and the table that turns one into a Kernel.
//
//   trace:DIR   exec:PROGRAM ARGS   openai+http://HOST:PORT?server=vllm   lab:NAME?option=value
//
// A text without a scheme, or a path, is a trace's directory. Options follow the last `?` as
// name=value joined by `&`, percent-decoded. The rest of exec: is a command line and is taken
// whole: a program's own arguments may hold a `?`.
//
// There is no registration behind the caller's back: whoever opens kernels hands in the table.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"

namespace kcc {

struct KernelUri {
  struct Option {
    std::string name;
    std::string value;
  };
  std::string text;             // as given; names the kernel in messages
  std::string scheme;           // "trace", "exec", "openai+http", "lab"
  std::string rest;             // between the scheme's colon and the options
  std::vector<Option> options;  // in the order given, names distinct

  const std::string* Find(std::string_view name) const;  // null if absent
  // Fails on an option whose name is not among `known`, naming the nearest.
  Result<> CheckOptions(std::span<const std::string_view> known) const;
};

Result<KernelUri> ParseKernelUri(std::string_view text);

// For an address that was pasted where a kernel is named, "http://HOST:PORT/v1" or "HOST:PORT", the
// URI that is probably meant; empty for any other text.
std::string ServerUriFor(std::string_view text);
// What is said then.
std::string AddressMessage(const std::string& server_uri);

// What every kernel is opened with, whatever its kind.
struct KernelOpenOptions {
  double start_timeout_s = 600;  // until it has said what it is: a model may have to load
  double batch_timeout_s = 600;  // for one Score or Generate
  double bye_timeout_s = 10;     // to end by itself, before it is ended
  // Becomes readable when the work is to stop (a signal came); a kernel that waits watches it and
  // fails with InterruptedError. -1: never.
  int stop_fd = -1;
  // Ask for audit points (audit_points.h), of kernels that have some.
  bool audit_points = false;
  const Clock* clock = &TheSystemClock();  // when generated requests were asked; outlives kernels
};

// "interrupted", for whoever waited when stop_fd became readable.
Error InterruptedError();

using KernelFactory =
    std::function<Result<std::unique_ptr<Kernel>>(const KernelUri&, const KernelOpenOptions&)>;
struct KernelScheme {
  std::string name;  // "exec"
  std::string form;  // "exec:PROGRAM ARGS", for messages
  KernelFactory open;
  // What can be told wrong about a URI without starting or reading anything large.
  std::function<Result<>(const KernelUri&)> check = {};
};

// Fails where OpenKernel would, as far as the URI alone tells: said before requests are read or an
// engine has to start.
Result<> CheckKernelUri(std::string_view uri, std::span<const KernelScheme> schemes);

// Fails with kInvalid where no scheme of the table fits, naming those that there are.
Result<std::unique_ptr<Kernel>> OpenKernel(std::string_view uri, const KernelOpenOptions& options,
                                           std::span<const KernelScheme> schemes);

}  // namespace kcc
