// A bounded queue from one worker of the plane to the scorer: one thread puts, one takes, none
// waits. What does not fit is dropped and counted; what was dropped is told by count, so that lost
// evidence is seen.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kcc/gateway/served_record.h"

namespace kcc {

class RecordRing {
 public:
  // Room for `capacity` records, rounded up to a power of two.
  explicit RecordRing(size_t capacity);

  // False: it is full; the record is dropped and counted by its kernel.
  bool Put(ServedRecord&& record);  // the worker
  // Whether the next one would be dropped (the worker).
  bool full() const;
  void Drop(size_t kernel);            // the worker: a record of this kernel that was not made
  std::optional<ServedRecord> Take();  // the scorer
  // How many records of each kernel were dropped since the last call (the scorer).
  std::vector<uint64_t> TakeDropped();

 private:
  std::vector<ServedRecord> slots_;
  size_t mask_;
  alignas(64) std::atomic<uint64_t> put_{0};
  alignas(64) std::atomic<uint64_t> taken_{0};
  std::vector<std::atomic<uint64_t>> dropped_;
};

}  // namespace kcc
