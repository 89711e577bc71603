#include "kcc/kernel/spread_requests.h"

#include <algorithm>
#include <utility>

namespace kcc {

std::vector<KernelRequest> SpreadRequests(std::span<const KernelRequest> requests, size_t count,
                                          size_t shift) {
  const size_t total = requests.size();
  std::vector<KernelRequest> chosen;
  if (total == 0) return chosen;
  count = std::min(count, total);
  for (size_t i = 0; i < count; ++i) {
    chosen.push_back(requests[(i * total / count + shift % (total / count)) % total]);
  }
  return chosen;
}

Result<std::vector<KernelRequest>> ReadSpread(RequestSource& source, int64_t count) {
  const int64_t total = source.totals().requests;
  if (count <= 0 || count > total) count = total;
  std::vector<KernelRequest> chosen;
  KernelRequest request;
  for (int64_t at = 0;; ++at) {
    KCC_TRY(const bool more, source.Next(&request));
    if (!more) return chosen;
    const auto next = static_cast<int64_t>(chosen.size());  // the k whose turn it is
    if (next < count && at == next * total / count) chosen.push_back(std::move(request));
    request = {};
  }
}

}  // namespace kcc
