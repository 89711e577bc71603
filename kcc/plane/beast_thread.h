// One I/O thread of the plane: its loop, acceptor, connections of clients and of kernels. Threads
// share the counters and nothing else.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kcc/gateway/gateway_core.h"
#include "kcc/plane/beast_kernel.h"
#include "kcc/plane/beast_wire.h"
#include "kcc/plane/client_keys.h"
#include "kcc/plane/plane.h"
#include "kcc/plane/rate_limit.h"

namespace kcc::plane {

// Options as they are in force, with what was made of them. Immutable; a reload makes new ones.
struct Settings {
  PlaneOptions options;
  ClientKeys keys;
  std::shared_ptr<TlsContext> tls;  // null: plain HTTP
};

struct SharedCounts {
  std::atomic<uint64_t> connections{0}, accepted{0}, over_limit{0}, bad_requests{0}, without_key{0},
      rate_limited{0};
  std::atomic<bool> draining{false};
  // Told when a connection ends while the plane drains.
  std::mutex drain_mutex;
  std::condition_variable drained;
};

class PlaneThread {
 public:
  PlaneThread(GatewayCore& core, GatewayWorker& worker, SharedCounts& counts,
              std::shared_ptr<const Settings> settings, uint64_t salt);
  ~PlaneThread();
  PlaneThread(const PlaneThread&) = delete;
  PlaneThread& operator=(const PlaneThread&) = delete;

  // Before Start. `port` 0: any that is free. Several threads share a port.
  Result<uint16_t> Listen(const std::string& host, uint16_t port);
  void Start();
  // From another thread. Stop closes everything and joins.
  void StopAccepting();
  void Use(std::shared_ptr<const Settings> settings);  // waits until the thread has it
  void Stop();

  // The thread's own, from here on.
  asio::io_context& io() { return io_; }
  GatewayCore& core() { return core_; }
  GatewayWorker& worker() { return worker_; }
  SharedCounts& counts() { return counts_; }
  KernelDoor& kernels() { return kernels_; }
  RateLimiter& rates() { return rates_; }
  const Settings& settings() const { return *settings_; }
  const PlaneOptions& options() const { return settings_->options; }
  std::shared_ptr<const Settings> shared_settings() const { return settings_; }
  bool draining() const { return draining_; }
  uint64_t salt() const { return salt_; }
  int64_t NowUs() const;

  void Came(Timed* timed);
  void Gone(Timed* timed);
  void ClientCame(bool refused);
  void ClientGone(bool refused);

 private:
  void Run();
  void Accept();
  void Take(Socket socket);
  void Sweep();
  void Drain();
  std::vector<std::shared_ptr<Timed>> Everyone(int64_t deadline_until_us) const;

  GatewayCore& core_;
  GatewayWorker& worker_;
  SharedCounts& counts_;
  std::shared_ptr<const Settings> settings_;
  const uint64_t salt_;
  bool draining_ = false;
  size_t refused_ = 0;  // connections over the limit that still hear so
  RateLimiter rates_;
  // Before the loop, since its handlers hold connections that leave these lists when they go.
  std::vector<Timed*> timed_;
  asio::io_context io_{1};
  Acceptor acceptor_;
  Timer sweep_timer_, accept_timer_;
  KernelDoor kernels_;
  std::thread thread_;
};

}  // namespace kcc::plane
