// One row's tokens, log-ratios, exponentials and sums, computed once for all who look at the row.
//
// Usually a row's mask is one run of ones and its numbers are plain; then the arrays are read where
// they lie (SumRlPair). Anything else, and a row that is not near (row_kernel.h), goes through
// RlRow, with the same sums to the bit.
#pragma once

#include <cstdint>
#include <vector>

#include "kcc/rl/batch.h"
#include "kcc/rl/row_kernel.h"

namespace kcc {

struct RlRowTerms {
  int64_t tokens = 0;
  std::vector<RlRow::Run> runs;
  // Of log-ratios held within -700 … 700. `usual`: all of them were so.
  RlRowSums sums;
  bool usual = false;
  bool near = false;                  // IsNearRow of the sums
  const double* log_ratio = nullptr;  // null if not asked for and direct
  const double* excess = nullptr;     // w - 1, padded to a multiple of 8
  double row_advantage = 0;

  int64_t bit_equal = 0;              // if direct
  const uint16_t* buckets = nullptr;  // of each token's log-ratio, if direct and asked for
  bool direct = false;                // read where it lies; else `row` holds the tokens
  RlRow row;

  struct Wanted {
    bool log_ratio = false;
    bool buckets = false;
  };
  // Refuses what RlRow::Load refuses.
  Result<> Load(const RlBatch& batch, int64_t at, Wanted wanted, Target target);

 private:
  bool LoadDirect(const RlBatch& batch, int64_t at, Wanted wanted, Target target);

  std::vector<double> excess_, log_ratio_;
  std::vector<uint16_t> buckets_;
};

}  // namespace kcc
