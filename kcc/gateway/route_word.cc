#include "kcc/gateway/route_word.h"

#include <algorithm>
#include <cmath>

namespace kcc {
namespace {

// A share needs 25 bits, since the whole is one of its values, and a kernel 7: of a route
// 7 + 7 + 25 bits are used, of the sampling all 64.
constexpr uint64_t kShareMask = (uint64_t{1} << 25) - 1;
constexpr uint64_t kKernelMask = 127;  // itself: none

uint64_t PackKernel(uint8_t kernel) { return kernel < kGatewayKernelsMax ? kernel : kKernelMask; }
uint8_t UnpackKernel(uint64_t word, int at) {
  const uint64_t kernel = (word >> at) & kKernelMask;
  return kernel < kGatewayKernelsMax ? static_cast<uint8_t>(kernel) : kNoKernel;
}
uint64_t PackShare(uint32_t share) { return std::min(share, kWholeShare); }
uint32_t UnpackShare(uint64_t word, int at) {
  return static_cast<uint32_t>((word >> at) & kShareMask);
}

uint64_t Pack(const Route24& route) {
  return PackKernel(route.serves) | PackKernel(route.canary) << 7 |
         PackShare(route.canary_share) << 14;
}
uint64_t Pack(const Sampling24& sampling) {
  return PackShare(sampling.audit_share) | PackShare(sampling.probe_share) << 25 |
         PackKernel(sampling.probed) << 50 | PackKernel(sampling.shadow) << 57;
}

uint64_t Mix(uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

uint32_t ShareOf(double share) {
  if (!(share > 0)) return 0;
  return static_cast<uint32_t>(std::lround(std::min(share, 1.0) * kWholeShare));
}

RouteWords::RouteWords() : route_(Pack(Route24{})), sampling_(Pack(Sampling24{})) {}

void RouteWords::Publish(const Route24& route) {
  route_.store(Pack(route), std::memory_order_release);
}

void RouteWords::Publish(const Sampling24& sampling) {
  sampling_.store(Pack(sampling), std::memory_order_release);
}

void RouteWords::Allow(uint64_t kernels) { allowed_.store(kernels, std::memory_order_release); }

Route24 RouteWords::route() const {
  const uint64_t word = route_.load(std::memory_order_acquire);
  return {UnpackKernel(word, 0), UnpackKernel(word, 7), UnpackShare(word, 14)};
}

Sampling24 RouteWords::sampling() const {
  const uint64_t word = sampling_.load(std::memory_order_acquire);
  return {UnpackShare(word, 0), UnpackKernel(word, 50), UnpackShare(word, 25),
          UnpackKernel(word, 57)};
}

std::optional<size_t> PickKernel(const Route24& route, uint64_t session_hash) {
  if (route.serves == kNoKernel) return std::nullopt;
  if (route.canary != kNoKernel && IsSampled(route.canary_share, session_hash)) {
    return route.canary;
  }
  return route.serves;
}

// The upper bits: of 2^24 equal parts of all hashes, exactly `share` are taken, and a larger share
// takes those of a smaller one and more, so that a widened canary moves no session back.
bool IsSampled(uint32_t share, uint64_t request_hash) { return (request_hash >> 40) < share; }

uint64_t HashBytes(uint64_t salt, std::string_view bytes) {
  uint64_t hash = Mix(salt ^ 0x9e3779b97f4a7c15u);
  size_t at = 0;
  // Little-endian words, put together byte by byte: alike on every machine.
  while (at < bytes.size()) {
    uint64_t word = 0;
    for (size_t i = 0; i < 8 && at < bytes.size(); ++i, ++at) {
      word |= uint64_t{static_cast<unsigned char>(bytes[at])} << (8 * i);
    }
    hash = Mix(hash ^ word) * 0x9e3779b97f4a7c15u;
  }
  return Mix(hash ^ bytes.size());
}

}  // namespace kcc
