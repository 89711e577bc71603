// Accumulator: requests and tokens in, statistics of every slice out.
//
// Requests that belong to the same slices of requests share one cell, tokens that belong to the
// same slices of tokens share another, and a token updates those two alone: its cost does not grow
// with the number of slices or clauses. Cells are expanded into slices when they have become many,
// and at the end; since everything is additive, when that happens cannot be seen. One accumulator
// per thread; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kcc/drift/sampled_token.h"
#include "kcc/drift/token_drift.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/request_group.h"
#include "kcc/summary/slice_stats.h"
#include "kcc/summary/summary.h"
#include "kcc/summary/token_columns.h"
#include "kcc/trace/slices.h"

namespace kcc {

struct TokenSample {
  int32_t position = 0;
  int32_t token = -1;
  int32_t gold = -1;  // -1: no label
};

struct AccumulatorOptions {
  size_t cells_max = 512;  // expand cells into slices beyond this many
};

class Accumulator {
 public:
  // The plan must outlive the accumulator. Slice bits are by index of plan.slices().
  Accumulator(const Plan& plan, const AccumulatorOptions& options);

  // `bits`: the request-level slices of the request. The request must live until EndRequest.
  void BeginRequest(const RequestPair& request, const SliceBits& bits);
  // `bits`: all slices of the token, those of its request included. Fails on a value that is not a
  // number, naming the quantity. `estimates`: only for traces that hold the sampled token alone and
  // were sampled by the infer side. `own`: by place in the plan's own_token_series(); what is not
  // there or not finite is missing.
  Result<> AddToken(const TokenSample& sample, const TokenDrift& drift, const SliceBits& bits,
                    const SampleEstimates* estimates = nullptr, std::span<const double> own = {});
  // Tokens that the request should have and the evidence lacks. Which slices of tokens they belong
  // to is not known, so they are missing from all of them.
  void AddMissingTokens(int64_t count);
  // A slice that holds the request, or a token of it, or not, by infer's word alone.
  void AddUnvouched(const Unvouched& unvouched);
  void EndRequest();

  // What was accumulated, without sources. The accumulator is spent. Fails where more requests
  // claim a window than it has room for.
  Result<Summary> Finish();

 private:
  struct Cell {
    Cell(const Plan& plan, SliceBits its_bits, SliceStats::Kind kind)
        : bits(std::move(its_bits)), stats(plan, kind) {}
    SliceBits bits;
    SliceStats stats;
  };
  struct RequestCell : Cell {
    using Cell::Cell;
    std::vector<size_t> windows;  // of the plan, that name one of the cell's slices
    std::vector<size_t> tests;
  };
  // The tokens of the current request that agree on the slices of tokens.
  struct Part {
    SliceBits bits;
    Cell* cell;  // null: in none of those slices
    GroupTokens tokens;
  };

  void ShareIndices(SliceStats* stats) const;
  size_t PartFor(const SliceBits& bits);
  Cell* TokenCellFor(const SliceBits& bits);
  void AddHeldTokens();
  static void AddTallies(const GroupTokens& tokens, SliceStats* into);
  void AddColumn(size_t column, size_t series);
  void AddValue(size_t series, double lo, double hi, const TokenPlace& place, Part* part);
  void AddCalibration(Part* part, const TokenSample& sample, const TokenDrift& drift);
  void AddCurves(Part* part, const TokenDrift& drift);
  RequestCell& RequestCellFor(const SliceBits& bits);
  void RecordTokenSlices();
  void FillWindows();
  void ExpandCells();

  const Plan& plan_;
  AccumulatorOptions options_;
  GroupRecorder recorder_;
  std::vector<size_t> slots_;                          // the plan's token slots
  std::vector<std::shared_ptr<BucketIndex>> indices_;  // by series, of all histograms in here
  std::vector<size_t> token_slices_;                   // slices that read a token field
  std::vector<size_t> request_slices_;                 // and those that do not
  std::map<std::vector<uint64_t>, std::unique_ptr<Cell>> token_cells_;
  std::map<std::vector<uint64_t>, std::unique_ptr<RequestCell>> request_cells_;
  std::vector<std::vector<size_t>> slice_windows_;  // by slice: the plan's windows that name it
  std::vector<std::vector<size_t>> slice_tests_;

  Summary summary_;
  RequestPair request_;
  ReplayRows rows_;    // of the request, where the plan keeps repeats
  EventFlags events_;  // and where it keeps events
  RequestCell* request_cell_ = nullptr;
  std::vector<std::unique_ptr<Part>> parts_;  // the first parts_used_ are the current request's
  size_t parts_used_ = 0;
  size_t last_part_ = 0;
  TokenColumns held_;  // a column for each of slots_, then for the estimate of each
  bool held_estimates_ = false;
  Shape shape_;  // of the run of tokens that is being added
  Shape whole_shape_;
  GroupTokens merged_;
};

}  // namespace kcc
