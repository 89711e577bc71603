// What the faults of a running server do to one request; decided when it arrives (faults.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kcc/serve/sequence_ask.h"

namespace kcc {

struct FaultPlan {
  std::optional<size_t> engine;  // another than the one that is served
  LogitChange change;
  int latency_ms = 0;                 // before the first byte
  std::optional<int> status;          // instead of an answer
  std::optional<size_t> stall_after;  // chunks; then stall_ms, once
  int stall_ms = 0;
  std::optional<size_t> cut_after;         // chunks; of an answer in one piece: before it
  std::optional<std::string> fingerprint;  // in place of the true one
};

}  // namespace kcc
