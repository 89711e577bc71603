// Kernels behind a server: vLLM, SGLang, llama.cpp and TensorRT-LLM, asked for the log-probs of
// given tokens over HTTP (docs/servers.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/server_options.h"
#include "kcc/kernel/uri.h"

namespace kcc {

// Connects, finds out who answers, and asks the probe (server_probe.h). The kernel holds only
// connections; it starts and stops no server.
Result<std::unique_ptr<Kernel>> OpenServerKernel(const ServerOptions& options);

// What server= may say of the server at the URI's address, which need not be said in it: more than
// one name where servers are alike, none where it is of no kind that kcc knows. Asks once.
Result<std::vector<std::string_view>> AnsweringServers(const KernelUri& uri,
                                                       const KernelOpenOptions& open);

// The library that talks to servers, and what it speaks TLS with: "libcurl/7.88.1 OpenSSL/3.0.17
// …".
std::string HttpLibraryVersion();

// The factories of openai+http: and openai+https:.
KernelScheme ServerScheme(bool secure);

}  // namespace kcc
