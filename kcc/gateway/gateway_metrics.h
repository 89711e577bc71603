// The counters of a gateway as Prometheus reads them: sums over its workers. docs/gateway.md has
// the names.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "kcc/gateway/gateway_core.h"

namespace kcc {

// Bounds of the histograms of seconds: 1 ms, doubled 22 times; the last is beyond them all.
inline constexpr size_t kTimeBounds = 23;
double TimeBound(size_t index);

// One more of this time, into the histogram and its sum.
void CountTime(int64_t us, std::array<std::atomic<uint64_t>, 24>& histogram,
               std::atomic<uint64_t>& sum_us);

// Sums over workers, read one after the other while they go on counting. The order of reading keeps
// what ended from exceeding what came.
struct GatewayTotals {
  uint64_t came = 0, answered = 0, cut = 0, own = 0, refused = 0, left = 0, under_way = 0;
};
GatewayTotals TotalsOf(const GatewayCore& core);

// kcc_requests_total{kernel,route,code} and the rest; # HELP and # TYPE before each family.
std::string GatewayMetricsText(const GatewayCore& core);

}  // namespace kcc
