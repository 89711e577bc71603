// What all requests of a gateway share: the pool in force, the route, counters, and the queues to
// the scorer. Made once; workers hold a reference. Nothing here waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/gateway/pool.h"
#include "kcc/gateway/record_ring.h"
#include "kcc/gateway/route_word.h"
#include "kcc/gateway/sampling_budget.h"
#include "kcc/gateway/scorer_places.h"

namespace kcc {

// Counted by its worker alone, read by whoever shows them. Every request that came ends in one way:
// came = the kernels' answered + the kernels' cut + own + refused + left + under_way.
struct KernelCounts {
  std::atomic<uint64_t> sent{0};       // requests sent to the kernel, retries counted
  std::atomic<uint64_t> answered{0};   // answers passed on to their end
  std::atomic<uint64_t> failed{0};     // tries without an answer to pass on: see IsKernelFailure
  std::atomic<uint64_t> cut{0};        // answers that broke off after their first content
  std::atomic<uint64_t> sampled{0};    // records put for the scorer, of any kind but fingerprints
  std::atomic<uint64_t> dropped{0};    // picked and not kept: the scorer had no place
  std::atomic<uint64_t> unasked{0};    // probes that it was not shown, since others wait for it
  std::atomic<uint64_t> mirrored{0};   // that others served, and that it is to be shown as well
  std::atomic<uint64_t> strangers{0};  // answers with another fingerprint
  std::array<std::atomic<uint64_t>, 6> by_status{};  // hundreds: [2] is 2xx
};
struct WorkerCounts {
  std::atomic<uint64_t> came{0};
  std::atomic<uint64_t> refused{0};  // answered by the gateway itself, with an error
  std::atomic<uint64_t> own{0};      // answered by the gateway itself, without: GET /v1/models
  std::atomic<uint64_t> retried{0};
  std::atomic<uint64_t> left{0};  // clients that went before the end
  std::atomic<uint64_t> under_way{0};
  std::atomic<uint64_t> unauditable{0};  // picked for an audit, and of a kind that has none
  std::atomic<uint64_t> bytes_in{0}, bytes_out{0};  // of bodies, as clients sent and got them
  std::atomic<uint64_t> first_content_us{0}, whole_us{0};  // sums of the histograms below
  std::array<KernelCounts, kGatewayKernelsMax> kernels;
  // Seconds to the first content and to the end, by the bounds of gateway_metrics.h.
  std::array<std::atomic<uint64_t>, 24> first_content{}, whole{};
};

// One writer, so no bus is locked for it.
inline void Count(std::atomic<uint64_t>& count, uint64_t by = 1) {
  count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

class GatewayWorker {
 public:
  GatewayWorker(size_t number, size_t ring) : number_(number), ring_(ring) {}
  size_t number() const { return number_; }
  RecordRing& ring() { return ring_; }
  SamplingBudget& budget() { return budget_; }
  WorkerCounts& counts() { return counts_; }
  const WorkerCounts& counts() const { return counts_; }

 private:
  friend class GatewayCore;
  const size_t number_;
  RecordRing ring_;
  SamplingBudget budget_;
  WorkerCounts counts_;
  // The pool as this worker last saw it.
  std::shared_ptr<const GatewayPool> pool_;
  uint64_t pool_number_ = 0;
  uint64_t requests_ = 0;
};

class GatewayCore {
 public:
  GatewayCore(std::shared_ptr<const GatewayPool> pool, size_t workers, size_t ring,
              const Clock* clock);

  // For a worker's next request; the worker's own thread. Takes a lock after a reload only.
  std::shared_ptr<const GatewayPool> PoolFor(GatewayWorker& worker);
  // Any thread.
  void Replace(std::shared_ptr<const GatewayPool> pool);
  std::shared_ptr<const GatewayPool> pool() const;

  RouteWords& route() { return route_; }
  const RouteWords& route() const { return route_; }
  ScorerPlaces& places() { return places_; }
  std::vector<std::unique_ptr<GatewayWorker>>& workers() { return workers_; }
  const std::vector<std::unique_ptr<GatewayWorker>>& workers() const { return workers_; }
  const Clock& clock() const { return *clock_; }
  // For a worker's next request; the worker's own thread.
  struct RequestName {
    std::string id;     // that no other request of any gateway has
    uint64_t hash = 0;  // decides whether it is sampled: of no client's choosing
  };
  RequestName NewRequest(GatewayWorker& worker);

 private:
  RouteWords route_;
  ScorerPlaces places_;  // before the rings, whose records hold some
  std::vector<std::unique_ptr<GatewayWorker>> workers_;
  const Clock* clock_;
  mutable std::mutex pool_mutex_;
  std::shared_ptr<const GatewayPool> pool_;
  std::atomic<uint64_t> pool_number_{1};
  uint64_t seed_;
  std::string id_prefix_;
};

}  // namespace kcc
