#include "kcc/gateway/record_ring.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kcc/gateway/route_word.h"

namespace kcc {

RecordRing::RecordRing(size_t capacity)
    : slots_(std::bit_ceil(std::max<size_t>(capacity, 1))),
      mask_(slots_.size() - 1),
      dropped_(kGatewayKernelsMax) {}

// `put_` and `taken_` only grow. A slot is the putter's from the moment that `taken_` has passed it
// until it raises `put_`, and the taker's from then on until it raises `taken_`.
bool RecordRing::Put(ServedRecord&& record) {
  if (full()) {
    Drop(record.kernel);
    return false;
  }
  const uint64_t put = put_.load(std::memory_order_relaxed);
  slots_[put & mask_] = std::move(record);
  put_.store(put + 1, std::memory_order_release);
  return true;
}

bool RecordRing::full() const {
  const uint64_t put = put_.load(std::memory_order_relaxed);
  return put - taken_.load(std::memory_order_acquire) == slots_.size();
}

void RecordRing::Drop(size_t kernel) {
  if (kernel < dropped_.size()) dropped_[kernel].fetch_add(1, std::memory_order_relaxed);
}

std::optional<ServedRecord> RecordRing::Take() {
  const uint64_t taken = taken_.load(std::memory_order_relaxed);
  if (taken == put_.load(std::memory_order_acquire)) return std::nullopt;
  ServedRecord& slot = slots_[taken & mask_];
  std::optional<ServedRecord> record(std::move(slot));
  slot = ServedRecord();  // what a move leaves, the pool among it, must not live on in the slot
  taken_.store(taken + 1, std::memory_order_release);
  return record;
}

std::vector<uint64_t> RecordRing::TakeDropped() {
  std::vector<uint64_t> counts(dropped_.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] = dropped_[i].exchange(0, std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace kcc
