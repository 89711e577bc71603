// Measure: two paired traces and a plan in, a summary out, as fast as they can be read.
//
// Threads take runs of requests and accumulate on their own; since every statistic is additive and
// exact, the result has the same bytes for any number of threads and any sharding.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "kcc/base/result.h"
#include "kcc/measure/pair_source.h"
#include "kcc/measure/row_device.h"
#include "kcc/measure/trace_source.h"
#include "kcc/numeric/target.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/summary.h"
#include "kcc/trace/pairing.h"

namespace kcc {

class TokenSink;  // pair_walk.h

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
  // What measures full logits; null: the CPU. Must outlive the measurement. Traces' rows are copied
  // to it; of arrays it measures those that lie there (ArrayPair::place).
  const RowDevice* device = nullptr;
  // Called after each run of requests, from any thread but never from two at once. May be empty.
  std::function<void(const MeasureProgress&)> progress;
  // What both sides were asked; null: not known, and train's trace says it.
  const AskedRequests* asked = nullptr;
  // The contract whose percentiles are to be known exactly; null: none. For who judges at once.
  const Contract* exact_for = nullptr;
  bool request_set = false;  // take the digest of the requests, for a contract that binds it
  // Read every byte of both traces first: check it, and record its digest. Arrays have none.
  bool verify = false;
  // Is shown every token beside the statistics; null: nobody is.
  TokenSink* tokens = nullptr;
};

// Fails on the first broken evidence in the order of reading, naming trace, request and position;
// whatever the number of threads it is the same.
Result<Summary> Measure(const PairedTraces& pair, const Plan& plan,
                        const MeasureOptions& options = {});

// The same for any source of pairs: the requests of `order`, without sources. Shards and totals of
// progress are the caller's.
Result<Summary> MeasureSource(const PairSource& source, std::span<const int32_t> order,
                              const Plan& plan, const MeasureOptions& options);

// What the pair is, for a summary's provenance.
Source DescribeSource(const PairedTraces& pair);

}  // namespace kcc
