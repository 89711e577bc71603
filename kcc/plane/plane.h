// The embedded data plane: HTTP/1.1 in and out with Boost.Beast, TLS on both sides, threads and
// limits. What becomes of a request is decided by the core (gateway/gateway_exchange.h).
//
// Every I/O thread is a GatewayWorker with an acceptor of its own (SO_REUSEPORT) and its own idle
// connections to kernels, so that threads share nothing. The admin port has a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/gateway/admin_handler.h"
#include "kcc/gateway/gateway_core.h"

namespace kcc {

struct PlaneTls {
  std::string certificate;  // PEM files; empty: plain HTTP
  std::string key;
};

struct PlaneOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: any that is free
  std::string admin_host = "127.0.0.1";
  uint16_t admin_port = 8081;
  std::string admin_token;  // that every request of the admin port must carry; empty: none must
  PlaneTls tls;
  // SHA-256 of the keys that clients may come with, in hex; empty: no key is asked for.
  std::vector<std::string> client_key_hashes;
  size_t header_bytes_max = 16 << 10;
  size_t body_bytes_max = size_t{8} << 20;
  size_t connections_max = 4096;       // of clients, over all threads
  double requests_per_second_max = 0;  // of one client address, over one thread; 0: any
  // Times are looked at every 50 ms.
  int64_t idle_ms = 75'000;         // a connection of a client without a request
  int64_t request_ms = 30'000;      // for a request to arrive whole
  int64_t connect_ms = 2'000;       // to a kernel
  int64_t first_byte_ms = 600'000;  // until a kernel's head is there
  int64_t between_ms = 120'000;     // between two pieces of a kernel's answer
  int64_t write_ms = 60'000;        // for a client to take what is written
  int64_t drain_ms = 30'000;
  size_t idle_upstreams_max = 64;  // connections to a kernel that a thread keeps
};

struct PlaneStarted {
  std::string url;
  std::string admin_url;
};

// Counted by the plane itself: what never became a request.
struct PlaneCounts {
  uint64_t connections = 0;  // open now
  uint64_t accepted = 0;
  uint64_t over_limit = 0;    // connections refused
  uint64_t bad_requests = 0;  // not HTTP, too large, too slow
  uint64_t without_key = 0;
  uint64_t rate_limited = 0;
};

// What is wrong with the options, the certificates that they name, and those that a pool's kernels
// are checked against: everything but the network. Start and Reload look at the options again; a
// pool is looked at before GatewayCore::Replace takes it, since kernels of which no certificate can
// be checked get no request.
Result<> CheckPlane(const PlaneOptions& options, const GatewayPool& pool);

class Plane {
 public:
  // Binds, and starts the threads. One worker of the core for each thread.
  static Result<std::unique_ptr<Plane>> Start(const PlaneOptions& options, GatewayCore& core,
                                              AdminHandler& admin, PlaneStarted* started);
  virtual ~Plane() = default;  // closes what is open
  // Options that may change while it runs: limits, keys, times, the admin token and certificates.
  // Connections and streams that are open stay; limits and keys hold for their next request. Where
  // it fails, all stays as it was. Of one thread at a time, and none of the plane's own but the
  // admin port's.
  virtual Result<> Reload(const PlaneOptions& options) = 0;
  // Accepts no more clients, lets requests finish for drain_ms, and returns. The admin port goes on
  // until the plane is destroyed.
  virtual void Drain() = 0;
  virtual PlaneCounts counts() const = 0;
};

}  // namespace kcc
