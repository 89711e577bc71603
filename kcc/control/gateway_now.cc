#include "kcc/control/gateway_now.h"

namespace kcc {
namespace {

uint64_t Read(const std::atomic<uint64_t>& count) { return count.load(std::memory_order_relaxed); }

void Add(const KernelCounts& from, KernelCountsNow* to) {
  to->sent += Read(from.sent);
  to->answered += Read(from.answered);
  to->failed += Read(from.failed);
  to->cut += Read(from.cut);
  to->sampled += Read(from.sampled);
  to->dropped += Read(from.dropped);
  to->strangers += Read(from.strangers);
  to->unasked += Read(from.unasked);
  to->mirrored += Read(from.mirrored);
  for (size_t i = 0; i < to->by_status.size(); ++i) to->by_status[i] += Read(from.by_status[i]);
}

}  // namespace

uint64_t CountsNow::sampled() const {
  uint64_t sum = 0;
  for (const KernelCountsNow& kernel : kernels) sum += kernel.sampled;
  return sum;
}

uint64_t CountsNow::dropped() const {
  uint64_t sum = 0;
  for (const KernelCountsNow& kernel : kernels) sum += kernel.dropped;
  return sum;
}

uint64_t CountsNow::unasked() const {
  uint64_t sum = 0;
  for (const KernelCountsNow& kernel : kernels) sum += kernel.unasked;
  return sum;
}

std::map<std::string, uint64_t> CountsNow::Offered() const {
  std::map<std::string, uint64_t> offered;
  for (const KernelCountsNow& kernel : kernels) {
    offered[kernel.name] = kernel.sampled + kernel.dropped + kernel.unasked + kernel.mirrored;
  }
  return offered;
}

CountsNow CountsOf(const GatewayCore& core) {
  CountsNow now;
  const auto pool = core.pool();
  for (const PoolKernel& kernel : pool->kernels) {
    now.kernels.push_back({});
    now.kernels.back().name = kernel.name;
    now.kernels.back().fingerprint = kernel.fingerprint;
  }
  for (const auto& worker : core.workers()) {
    const WorkerCounts& counts = worker->counts();
    now.came += Read(counts.came);
    now.refused += Read(counts.refused);
    now.own += Read(counts.own);
    now.retried += Read(counts.retried);
    now.left += Read(counts.left);
    now.under_way += Read(counts.under_way);
    now.unauditable += Read(counts.unauditable);
    now.bytes_in += Read(counts.bytes_in);
    now.bytes_out += Read(counts.bytes_out);
    for (size_t i = 0; i < now.kernels.size(); ++i) Add(counts.kernels[i], &now.kernels[i]);
  }
  return now;
}

const KernelStatus* GatewayNow::FindKernel(const std::string& name) const {
  for (const KernelStatus& kernel : view->status.kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

const KernelCountsNow* GatewayNow::FindCounts(const std::string& name) const {
  for (const KernelCountsNow& kernel : counts.kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

EvidenceAge GatewayNow::EvidenceOf(const std::string& kernel) const {
  const auto found = view->evidence.find(kernel);
  return found == view->evidence.end() ? EvidenceAge() : found->second;
}

std::string_view EvaluatorState(const GatewayNow& now) {
  if (now.silent) return "silent";
  return now.view->log_failed ? "log-failed" : "running";
}

}  // namespace kcc
