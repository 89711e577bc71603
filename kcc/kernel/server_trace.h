// From a server's answers to a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/server_score.h"

namespace kcc {

struct ServerTrace {
  TraceInfo info;
  int32_t top = 0;  // alternatives kept a token
  std::optional<double> kv_cache_mb;
  bool mask_missing = false;  // a token without a log-prob does not count; else it is an error
};

TraceInfo GeneratedTraceInfo(const KernelInfo& kernel, LogprobSemantics semantics,
                             const Sampling& sampling, bool lists);

// Answer i is about request i. All or nothing.
Result<> WriteServerTrace(const ServerTrace& trace, std::span<const KernelRequest> batch,
                          std::span<const ScoreAnswer> answers, const std::string& directory);

}  // namespace kcc
