// Where requests go, in two words of 64 bits that one thread writes and all others read: a request
// is routed without a lock, and by one route as a whole.
//
// A request has one hash, of its session key, so that a session stays with its kernel while the
// route does; and one of its own, which decides, before any answer is known, whether it is sampled.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kcc {

inline constexpr size_t kGatewayKernelsMax = 64;
inline constexpr uint8_t kNoKernel = 0xFF;

// Shares are counts out of 2^24; ShareOf(1.0) takes every request and ShareOf(0.0) none.
inline constexpr uint32_t kWholeShare = uint32_t{1} << 24;
uint32_t ShareOf(double share);

struct Route24 {
  uint8_t serves = kNoKernel;  // takes what the canary does not; kNoKernel: requests are refused
  uint8_t canary = kNoKernel;
  uint32_t canary_share = 0;  // of sessions

  bool operator==(const Route24&) const = default;
};

struct Sampling24 {
  uint32_t audit_share = 0;    // of requests, that are audited
  uint8_t probed = kNoKernel;  // a guarded kernel, shown copies of requests
  uint32_t probe_share = 0;
  uint8_t shadow = kNoKernel;  // a candidate, shown copies of audited requests

  bool operator==(const Sampling24&) const = default;
};

class RouteWords {
 public:
  RouteWords();                              // refuses, samples nothing, allows every kernel
  void Publish(const Route24& route);        // one thread
  void Publish(const Sampling24& sampling);  // the same
  // The kernels that may serve at all, kernel i as bit i: of the pool's, those that are registered
  // under the contract and not ruled out. Nothing is sent to another, whatever the route says: what
  // comes next in the order of failover serves. Roles that are not servable serve nothing, allowed
  // or not, but for a candidate that the route names as its canary.
  void Allow(uint64_t kernels);  // the same
  Route24 route() const;
  Sampling24 sampling() const;
  uint64_t allowed() const { return allowed_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint64_t> route_;
  std::atomic<uint64_t> sampling_;
  std::atomic<uint64_t> allowed_{~uint64_t{0}};
};

// The kernel for a session; none: requests are refused.
std::optional<size_t> PickKernel(const Route24& route, uint64_t session_hash);
bool IsSampled(uint32_t share, uint64_t request_hash);

// 64 bits of a key, alike on every machine and independent of other salts. Not for secrets.
uint64_t HashBytes(uint64_t salt, std::string_view bytes);

}  // namespace kcc
