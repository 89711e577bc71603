// exec:PROGRAM ARGS: any program that speaks the exec protocol (docs/exec-protocol.md) as a kernel.
//
// The program is started once and asked one batch at a time. It writes tensors into a file that kcc
// names, inside a directory that kcc owns; kcc checks everything the program said against what was
// asked before it calls the file a trace. It is never started again: whatever fails, fails the run,
// with the end of the program's standard error in the message.
#pragma once

#include <memory>
#include <string>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/uri.h"

namespace kcc {

// Starts the program and waits for its hello.
Result<std::unique_ptr<Kernel>> OpenExecKernel(const KernelUri& uri,
                                               const KernelOpenOptions& options);

KernelScheme ExecScheme();

}  // namespace kcc
