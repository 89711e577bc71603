// WalkPairs: the one loop from pairs of rows to quantities. A visitor says what becomes of them:
// statistics, checks of bounds, sums by corner, tables.
//
// Rows overlap inside the row kernels: the tv of a row is known only after the next row has begun
// (drift/simd.h). That stays in here: a visitor is given a token when all of it is known, and the
// tokens of a request in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/measure/pair_source.h"
#include "kcc/measure/token_meter.h"
#include "kcc/numeric/target.h"
#include "kcc/summary/plan.h"
#include "kcc/trace/slices.h"

namespace kcc {

// One token, measured.
struct MeasuredToken {
  int32_t position = 0;
  int32_t token = -1;
  TokenReading reading;
  SliceBits bits;           // all its slices, those of its request included
  std::vector<double> own;  // by place in WalkOptions::own; NaN: missing
};

class PairVisitor {
 public:
  virtual ~PairVisitor() = default;
  // `bits`: the slices that are decided by the request alone. The request lives until EndRequest.
  virtual Result<> BeginRequest(size_t index, const RequestPair& request, const SliceBits& bits);
  // Slices of the request, or of the token that is read next, that rest on infer's word alone.
  virtual void NoteUnvouched(std::span<const Unvouched> unvouched);
  // The evidence itself, before it is measured; it is gone after the call.
  virtual Result<> Read(const TokenEvidence& train, const TokenEvidence& infer);
  // An error is given the token's place by the walk.
  virtual Result<> Add(const MeasuredToken& token) = 0;
  virtual Result<> EndRequest();
};

// For who needs the tokens of a measurement one by one (MeasureOptions::tokens). Called from
// several threads at once, but for one request by one thread alone: Begin, then its tokens in
// order.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // `request`: its place in the source. The pair lives until the request's last token.
  virtual void Begin(size_t request, const RequestPair& pair) = 0;
  virtual void Take(size_t request, const MeasuredToken& token) = 0;
};

struct WalkProgress {
  int64_t requests = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;  // of evidence read so far, both sides
};

struct WalkOptions {
  SlotSet wanted;                  // none: the rows are read and not measured
  std::optional<Target> target;    // none: the fastest the CPU has
  std::span<const OwnSeries> own;  // metrics of the user's own to take of every token
  // Called after each run of requests, from any thread but never from two at once. May be empty.
  std::function<void(const WalkProgress&)> progress;
};

// Walks the requests of `order`. Each visitor has a thread of its own and is given runs of
// requests; with one visitor they come in order. Fails on the first broken evidence in the order
// of reading, whatever the number of visitors.
Result<> WalkPairs(const PairSource& source, std::span<const int32_t> order,
                   const SliceEvaluator& slices, const WalkOptions& options,
                   std::span<PairVisitor* const> visitors);

}  // namespace kcc
