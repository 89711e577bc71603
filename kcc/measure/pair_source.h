// PairSource: both sides' evidence about the same requests, wherever it lies: in two traces, in the
// caller's arrays, in the memory of an experiment. The driver (pair_walk.h) reads all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kcc/base/result.h"
#include "kcc/measure/token_meter.h"
#include "kcc/summary/population.h"
#include "kcc/trace/trace.h"

namespace kcc {

// The two sides' rows about one token. Null: there is no further token.
struct RowPairView {
  const TokenEvidence* train = nullptr;
  const TokenEvidence* infer = nullptr;
  // What a device made of the rows' logits (row_device.h), or why they cannot be measured. Null:
  // the CPU measures them.
  const Result<TokenDrift>* measured = nullptr;
};

// One thread's way through the counted rows of a source, in order of position. Every row it hands
// out has passed CheckEvidenceScalars (trace/evidence_check.h); the logits, which are the bulk,
// are looked at by whoever computes with them.
class PairRows {
 public:
  virtual ~PairRows() = default;
  // These requests will be sought next, in this order and each to its end; for who reads ahead.
  virtual void Announce(std::span<const int32_t> /*requests*/) {}
  // The next Next() gives the first rows of the request.
  virtual void Seek(size_t request) = 0;
  // The views live until the next call. Errors name their place.
  virtual Result<RowPairView> Next() = 0;
};

// Immutable while it is read; any number of threads may hold rows of one source, which outlives
// them.
class PairSource {
 public:
  virtual ~PairSource() = default;

  virtual MeterSettings settings() const = 0;
  virtual size_t requests() const = 0;
  // The views live as long as the source.
  virtual RequestPair request(size_t i) const = 0;
  virtual int64_t tokens(size_t i) const = 0;            // that count; for sharing out the work
  virtual int64_t bytes_per_token() const { return 1; }  // of evidence, both sides
  virtual std::unique_ptr<PairRows> Rows() const = 0;
  // What went wrong with a token, with its place.
  virtual Error At(size_t request, int32_t position, const Error& why) const = 0;
};

}  // namespace kcc
