// Kernels behind a server: vLLM, SGLang, llama.cpp and TensorRT-LLM, asked for the log-probs of
// given tokens over HTTP (docs/servers.md).
#pragma once

#include <memory>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/server_options.h"
#include "kcc/kernel/uri.h"

namespace kcc {

// Connects, finds out who answers, and asks the probe (server_probe.h). The kernel holds only
// connections; it starts and stops no server.
Result<std::unique_ptr<Kernel>> OpenServerKernel(const ServerOptions& options);

// The factories of openai+http: and openai+https:.
KernelScheme ServerScheme(bool secure);

}  // namespace kcc
