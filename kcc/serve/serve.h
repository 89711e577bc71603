// The lab engine as an HTTP server: `kcc lab serve`. The formats are vLLM's; docs/lab-serve.md.
//
// service.h is the server without HTTP; serve_beast.cc is the plane, the one file that knows
// Boost.Beast.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/lab/switches.h"

namespace kcc {

struct ServeOptions {
  std::string model_directory;
  LabSwitches switches;
  std::string program_version;  // of kcc, for /version
  std::string host = "127.0.0.1";
  uint16_t port = 8000;                // 0: any that is free
  std::optional<uint16_t> admin_port;  // of faults, on the loopback; none: no faults can be set
  size_t queue_max = 256;  // sequences that may wait; beyond it requests are refused (429)
  size_t connections_max = 512;
  size_t body_bytes_max = size_t{8} << 20;
  int idle_s = 60;     // a connection without a request
  int request_s = 30;  // for a request to arrive whole, and for an answer to be taken
  int drain_s = 30;    // after a signal, for requests that run
};

struct ServeStarted {
  std::string url;        // "http://127.0.0.1:8000"
  std::string admin_url;  // empty: none
  std::string model;
  std::string fingerprint;
};

// Serves until SIGTERM or SIGINT, then finishes what runs and returns. A second signal ends it at
// once. `started` is called when connections are accepted; where it fails the server ends, since
// nobody would know of it. Fails where the model cannot be read or the port cannot be had.
using TellStarted = std::function<Result<>(const ServeStarted&)>;
Result<> Serve(const ServeOptions& options, const TellStarted& started);

}  // namespace kcc
