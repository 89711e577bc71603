// Measure: two paired traces and a plan in, a summary out, as fast as they can be read.
//
// Threads take runs of requests and accumulate on their own; since every statistic is additive and
// exact, the result has the same bytes for any number of threads and any sharding.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "kcc/base/result.h"
#include "kcc/numeric/target.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/summary.h"
#include "kcc/trace/pairing.h"

namespace kcc {

struct MeasureProgress {
  int64_t requests = 0;
  int64_t requests_total = 0;
  int64_t tokens = 0;
  int64_t tokens_total = 0;
  int64_t bytes = 0;  // of evidence read so far, both sides
};

struct MeasureOptions {
  int threads = 1;
  Shard shard;
  std::optional<Target> target;  // none: the fastest the CPU has
  // Called after each run of requests, from any thread but never from two at once. May be empty.
  std::function<void(const MeasureProgress&)> progress;
};

// Fails on the first broken evidence in the order of reading, naming trace, request and position;
// whatever the number of threads it is the same.
Result<Summary> Measure(const PairedTraces& pair, const Plan& plan,
                        const MeasureOptions& options = {});

// What the pair is, for a summary's provenance.
Source DescribeSource(const PairedTraces& pair);

}  // namespace kcc
