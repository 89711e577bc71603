// One thread's share of a batch on its way into an RlSummary: local states by slice number, merged
// when all rows went well. And how rows are shared out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kcc/rl/diagnostics.h"
#include "kcc/rl/row_terms.h"
#include "kcc/rl/slice_state.h"

namespace kcc {

class RlPass {
 public:
  static constexpr RlRowTerms::Wanted kWanted = {.log_ratio = false, .buckets = true};

  RlPass(const RlBatch& batch, Target target);

  // Row `at` of the batch, loaded with kWanted. Changes terms->row, so others look at it first.
  void AddRow(int64_t at, RlRowTerms* terms);
  // Ends the pass. `summary` is a new one that nobody else has: where memory runs out it is left in
  // between.
  void MergeInto(RlSummary* summary);

 private:
  struct Local {
    RlSliceState state;
    std::vector<uint32_t> buckets;
    int64_t tokens = 0;
  };

  Local& Of(int64_t row);
  static void Flush(Local& local);
  void AddDirect(Local& local, const RlRowTerms& terms);
  void AddLoaded(Local& local, RlRowTerms& terms);
  RlUnit AddSums(RlSliceState& state, const RlRowSums& sums, int64_t tokens);
  static void AddTokens(RlLevelState& level, const RlRowSums& sums, const double* log_ratio,
                        int64_t tokens);
  void AddSegments(RlSliceState& state, const RlUnit& whole, const RlRow& row);
  void AddRowSkew(RlSkewState& skew, const RlRowSums& sums, int64_t tokens, double advantage);
  void AddTokenSkew(RlSkewState& skew, const RlRow& row);
  void AddFarSkew(RlSkewState& skew, const RlRow& row);
  void AddOld(RlSliceState& state, const RlRow& row);

  const RlBatch& batch_;
  Target target_;
  std::vector<double> excess_, part_;
  std::vector<std::unique_ptr<Local>> states_;
};

// How many shares: at least one, at most one a row.
int64_t RlParts(int64_t rows, int threads);
// Calls visit(part, row) for each row, parts in threads of their own but the first. Rows are handed
// out as threads come for more, so that long ones and a busy core leave nobody waiting: which part
// gets a row is chance, but each gets its rows in order. Of faults, the first row's.
Result<> ForRlRows(int64_t rows, int threads,
                   const std::function<Result<>(size_t part, int64_t row)>& visit);

}  // namespace kcc
