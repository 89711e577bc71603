// Decides a log again, from its observations alone, and compares every byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kcc/base/result.h"
#include "kcc/monitor/monitor.h"

namespace kcc {

struct LogReplay {
  int64_t decisions = 0;            // that were found equal
  std::string head;                 // digest of the last line that was
  std::optional<Error> difference;  // the first, with its place; none: the log is as it should be
  std::string kcc;                  // the version that wrote the log
  std::optional<MonitorStatus> status;  // after the last observation that was folded
};

// Fails where the log cannot be read at all. A broken chain, another contract or policy, and a cut
// last line are differences. `head`: what the last line's digest must be; empty: not known.
Result<LogReplay> ReplayLog(const std::string& path, const Contract& contract,
                            const MonitorPolicy& policy, const std::string& head = {});

}  // namespace kcc
