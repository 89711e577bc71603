// Decides a log again, from its observations alone, and compares every byte.
//
// Of a log of several files the states between them are compared too. Where the first file given is
// not the first of its log, its own first line says what it goes on from: that is believed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/monitor/monitor.h"

namespace kcc {

struct LogReplay {
  int64_t decisions = 0;            // that were found equal
  int64_t believed = 0;             // decisions before the first file
  std::string head;                 // digest of the last line that was
  std::optional<Error> difference;  // the first, with its place; none: the log is as it should be
  std::string kcc;                  // the version that wrote the log
  std::optional<MonitorStatus> status;  // after the last observation that was folded
};

// Fails where the log cannot be read at all. A broken chain, another contract or policy, and a cut
// last line are differences. `head`: what the last line's digest must be; empty: not known.
// `paths`: at least one, in the order in which the files follow one another.
Result<LogReplay> ReplayLog(const std::vector<std::string>& paths, const Contract& contract,
                            const MonitorPolicy& policy, const std::string& head = {});

}  // namespace kcc
