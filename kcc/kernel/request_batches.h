// Requests in batches: as many as asked for, fewer where their evidence would grow too large.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/kernel/request_source.h"

namespace kcc {

struct BatchLimits {
  int64_t requests = 1;
  int64_t tokens = 1;  // scored ones; a single request may have more
};

// The limits under which both options and kernel can work.
BatchLimits LimitsFor(const KernelInfo& info, int64_t requests, int64_t bytes_max);

class RequestBatches {
 public:
  RequestBatches(RequestSource& source, BatchLimits limits) : source_(source), limits_(limits) {}

  // The next ones; empty after the last.
  Result<std::vector<KernelRequest>> Next();

 private:
  RequestSource& source_;
  BatchLimits limits_;
  std::optional<KernelRequest> waiting_;  // did not fit into the last batch
  int64_t asked_ = 0;
};

}  // namespace kcc
