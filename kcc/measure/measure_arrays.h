// Measure without files: both sides' evidence about the same tokens, in the caller's memory.
//
// What a trainer has at hand after a step: log-probs of the sampled tokens, padded [B,T] or packed,
// two logit tensors, or its own logits and the lists that a server returned. Nothing is copied. The
// summary is the one that two traces with the same content would give, but for its sources, which
// name the fingerprints and no trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/measure/device_table.h"
#include "kcc/measure/measure.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/summary.h"
#include "kcc/trace/trace.h"

namespace kcc {

// One side's evidence: logits, top-k lists, or log-probs of the sampled tokens; lists may come with
// such log-probs.
struct ArraySide {
  const void* logits = nullptr;  // rows of vocab_size entries; entries adjacent
  DType logits_dtype = DType::kF32;
  int64_t logits_stride = 0;       // entries from one row to the next; 0: vocab_size
  const void* logprobs = nullptr;  // of the sampled tokens, F32 or F64
  DType logprobs_dtype = DType::kF32;
  // Rows of top_k entries each, in falling order of the log-probs; -1 fills up shorter lists.
  const int32_t* top_ids = nullptr;
  const float* top_logprobs = nullptr;
  int64_t top_k = 0;
  std::string fingerprint;
};

// Request r owns row_counts[r] rows from first_rows[r] on; rows of no request are padding.
struct ArrayPair {
  ArraySide train;
  ArraySide infer;
  std::span<const Request> requests;    // ids unique; fields are what slices read
  std::span<const int64_t> first_rows;  // by request
  std::span<const int64_t> row_counts;  // by request
  std::span<const int32_t> positions;   // by row; empty: counted from 0 in each request
  std::span<const int32_t> tokens;      // by row; empty: not known
  std::span<const uint8_t> mask;        // by row, 0: does not count; empty: all count
  std::span<const float> advantages;    // by row; empty: none
  int64_t vocab_size = 0;               // with logits or lists
  // Of the compared distributions: logits are divided by it, log-probs are at it.
  double temperature = 1.0;
  // At which the tokens were sampled; 0: greedily, or not from the whole distribution, so that
  // nothing is estimated from them; none: at `temperature`.
  std::optional<double> sampling_temperature;
  SampledBy sampled_by = SampledBy::kInfer;
  // Set: the logits of both sides lie on MeasureOptions::device, there.
  std::optional<DevicePlace> place;
};

// Logits face logits or lists, lists face either, log-probs face log-probs. Fails on the first
// broken token in the order of requests, naming request and row. Shards are not supported: the
// caller's batch is the shard, merge the summaries.
Result<Summary> MeasureArrays(const ArrayPair& pair, const Plan& plan,
                              const MeasureOptions& options = {});

// The same in two parts, so that the caller can work while a device measures: Begin checks the
// arrays and starts the device, Finish waits for it and sums up, once. Logits in the host's memory
// are measured by Finish. What the pair points to must stay as it is between the two.
class ArrayMeasurement {
 public:
  static Result<ArrayMeasurement> Begin(const ArrayPair& pair, const Plan& plan,
                                        const MeasureOptions& options = {});
  // `tokens`: is shown every token; may be null.
  Result<Summary> Finish(TokenSink* tokens = nullptr);

  const ArrayPair& pair() const { return pair_; }
  const Plan& plan() const { return plan_; }

 private:
  ArrayMeasurement(const ArrayPair& pair, const Plan& plan, const MeasureOptions& options)
      : pair_(pair), plan_(plan), options_(options) {}

  ArrayPair pair_;
  Plan plan_;
  MeasureOptions options_;
  std::optional<DeviceTable> table_;
};

}  // namespace kcc
