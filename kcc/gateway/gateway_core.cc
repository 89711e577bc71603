#include "kcc/gateway/gateway_core.h"

#include <cstdio>
#include <random>
#include <utility>

#include "kcc/base/check.h"

namespace kcc {
namespace {

constexpr uint64_t kRequestSalt = 0x7265717565737473;

// Different for two gateways that start in the same millisecond, and of nobody's choosing.
uint64_t DrawSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 ^ device();
}

}  // namespace

GatewayCore::GatewayCore(std::shared_ptr<const GatewayPool> pool, size_t workers, size_t ring,
                         const Clock* clock)
    : clock_(clock), pool_(std::move(pool)), seed_(DrawSeed()) {
  KCC_CHECK(pool_ != nullptr && pool_->kernels.size() <= kGatewayKernelsMax);
  char prefix[32];
  std::snprintf(prefix, sizeof prefix, "req-%llx-%06llx-",
                static_cast<unsigned long long>(clock_->NowMs()),
                static_cast<unsigned long long>(seed_ & 0xFFFFFF));
  id_prefix_ = prefix;
  for (size_t i = 0; i < workers; ++i) {
    workers_.push_back(std::make_unique<GatewayWorker>(i, ring));
  }
}

std::shared_ptr<const GatewayPool> GatewayCore::PoolFor(GatewayWorker& worker) {
  if (const uint64_t number = pool_number_.load(std::memory_order_acquire);
      worker.pool_number_ != number) {
    const std::lock_guard lock(pool_mutex_);
    worker.pool_ = pool_;
    worker.pool_number_ = number;
  }
  return worker.pool_;
}

void GatewayCore::Replace(std::shared_ptr<const GatewayPool> pool) {
  KCC_CHECK(pool != nullptr && pool->kernels.size() <= kGatewayKernelsMax);
  const std::lock_guard lock(pool_mutex_);
  pool_ = std::move(pool);
  pool_number_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<const GatewayPool> GatewayCore::pool() const {
  const std::lock_guard lock(pool_mutex_);
  return pool_;
}

GatewayCore::RequestName GatewayCore::NewRequest(GatewayWorker& worker) {
  const uint64_t number = worker.requests_++;
  char digits[48];
  const int length = std::snprintf(digits, sizeof digits, "%zx-%llx", worker.number(),
                                   static_cast<unsigned long long>(number));
  const std::string_view name(digits, static_cast<size_t>(length));
  RequestName made;
  made.id.reserve(id_prefix_.size() + name.size());
  made.id.append(id_prefix_).append(name);
  made.hash = HashBytes(seed_ ^ kRequestSalt, name);
  return made;
}

}  // namespace kcc
