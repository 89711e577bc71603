// A line of observations that could not be read. It is folded and logged as one, so that what it
// would have said is missing and not gone (Monitor::ObserveUnread), and a log with it is replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/monitor/monitor.h"

namespace kcc {

// Of the reason that is kept: a message may quote a key of any length.
inline constexpr size_t kUnreadReasonBytesMax = 300;
// That one may stand for.
inline constexpr int64_t kUnreadLinesMax = 100'000;

struct UnreadLine {
  std::string kernel;  // of the policy, where the line is an object that names it; else empty
  std::string reason;  // why it could not be read
  int64_t column = 0;  // where, from 1; 0: not known
  int64_t bytes = 0;   // of the line
  std::string digest;  // SHA-256 of it; empty: it was too long to be read to its end
  // Of evidence that nobody kept, as many as this, each of which is an observation.
  int64_t lines = 1;
};

// `line`: without its end; none where it was too long to be read to it. The kernel is believed
// where the line names one that the policy has, once: what is wrong with it is then that kernel's.
UnreadLine UnreadLineOf(std::optional<std::string_view> line, const Error& error,
                        const MonitorPolicy& policy);

// Folds it, or all that it stands for: what they changed, with the number of the last.
MonitorDecision DecideUnread(const UnreadLine& line, Monitor* monitor);

// As a value of the writer; back from its text. Fails on what could not have been written so.
void WriteUnread(const UnreadLine& line, JsonWriter* writer);
Result<UnreadLine> ReadUnread(std::string_view json);

}  // namespace kcc
