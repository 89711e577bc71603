#include "kcc/kernel/request_batches.h"

#include <algorithm>
#include <utility>

namespace kcc {
namespace {

int64_t BytesPerToken(const KernelInfo& info) {
  constexpr int64_t kColumns = 64;  // ids, log-probs, a top-k list
  const bool logits = info.evidence == EvidenceLevel::kLogits;
  return kColumns + (logits ? info.vocab_size * 4 : 0);
}

}  // namespace

BatchLimits LimitsFor(const KernelInfo& info, int64_t requests, int64_t bytes_max) {
  BatchLimits limits;
  limits.requests = std::max<int64_t>(1, requests);
  if (info.batch_requests_max > 0) {
    limits.requests = std::min<int64_t>(limits.requests, info.batch_requests_max);
  }
  limits.tokens = std::max<int64_t>(1, bytes_max / BytesPerToken(info));
  return limits;
}

Result<std::vector<KernelRequest>> RequestBatches::Next() {
  std::vector<KernelRequest> batch;
  int64_t tokens = 0;
  while (static_cast<int64_t>(batch.size()) < limits_.requests) {
    if (!waiting_) {
      KernelRequest request;
      KCC_TRY(const bool more, source_.Next(&request));
      if (!more) break;
      request.ordinal = asked_++;
      waiting_ = std::move(request);
    }
    tokens += static_cast<int64_t>(waiting_->tokens.size()) - waiting_->prompt_tokens;
    if (!batch.empty() && tokens > limits_.tokens) break;
    batch.push_back(std::move(*waiting_));
    waiting_.reset();
  }
  return batch;
}

}  // namespace kcc
