// What an RL step knows of its sampled tokens: log-probs of the same tokens from the trainer and
// from the rollout engine, a mask, and what else is at hand, as views of the caller's arrays.
//
// Arrays are [rows, columns] in row-major order with a stride between rows, or packed: one long
// array, where row r is the elements [offsets[r], offsets[r+1]). Nothing is copied or owned; the
// arrays must outlive the batch. Which side is which: w = exp(train - rollout), sampled from
// rollout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

enum class RlType : uint8_t { kF32, kF64, kU8, kI32, kI64 };  // kU8 also stands for bool

// One array; empty (data == nullptr) where the caller has none.
struct RlArray {
  const void* data = nullptr;
  RlType type = RlType::kF32;
  // In elements; unused when the batch is packed, but of advantages per row: 0 stands for 1 there.
  int64_t row_stride = 0;

  explicit operator bool() const { return data != nullptr; }
  double At(int64_t element) const;
};

// The number at an element of raw memory, widened.
double RlNumber(const void* data, RlType type, int64_t element);
size_t RlTypeBytes(RlType type);

struct RlBatch {
  int64_t rows = 0;
  int64_t columns = 0;               // of a padded batch
  std::span<const int64_t> offsets;  // of a packed batch: rows + 1 numbers from 0, not falling

  RlArray train;    // log-probs by the trainer: of the policy that the loss uses
  RlArray rollout;  // log-probs by the engine that sampled the tokens
  // Log-probs by the trainer of the weights that sampled (PPO's "old"), where `train` is of newer
  // weights: separates numerical mismatch (old - rollout) from staleness (train - old).
  RlArray old;
  RlArray mask;  // non-zero: the token counts; none: all of them do

  RlArray advantages;
  bool advantage_per_row = true;  // [rows], else laid out as `train`

  // Rows' slices by number; none: one slice. Names are only looked at for reports.
  std::span<const int32_t> slice_of_row;
  std::span<const std::string> slice_names;

  bool packed() const { return !offsets.empty(); }
  int64_t RowLength(int64_t row) const;
  // Element number of a row's first token in an array of the batch's layout.
  int64_t RowBegin(const RlArray& array, int64_t row) const;
  int64_t TokensMax() const;  // of the longest row
  // Of advantages per row; 0 without any.
  double RowAdvantage(int64_t row) const;
};

// Shapes, offsets and slices agree, and train and rollout are there; else an error that names the
// array. Looks at no log-prob: what the numbers may be is the reader's business (RlRow).
Result<> CheckRlBatch(const RlBatch& batch);

Result<> CheckRowAdvantage(int64_t row, double advantage);
// A NaN says neither that a token counts nor that it does not.
Error BadMaskError(int64_t row, int64_t column);

// The valid tokens of one row side by side, in double, without padding. Reused from row to row.
struct RlRow {
  // A maximal run of ones in the mask: a segment (turn) of the sequence.
  struct Run {
    int64_t column = 0;  // where it stands in the row
    int64_t token = 0;   // its first token among the valid ones
    int64_t length = 0;
  };
  int64_t tokens = 0;
  std::vector<Run> runs;
  std::vector<double> train, rollout, log_ratio;
  std::vector<double> old, advantage;  // empty where the batch has none, or none per token
  double row_advantage = 0;            // where advantages are per row
  // Tokens with a log-ratio below -700 or above 700 (-inf included): the trainer gives them no
  // chance, or the engine gave none to what it sampled. Counted; Finite() leaves them out.
  int64_t zero_ratio = 0, infinite_ratio = 0;

  // Refuses, naming row and column: NaN (in the mask too), +inf, a log-prob above 1e-3 (a
  // probability above one), -inf on both sides, and an advantage that is not finite.
  Result<> Load(const RlBatch& batch, int64_t row);
  // Drops the tokens counted in zero_ratio and infinite_ratio. `runs` then no longer maps columns,
  // only segments.
  void KeepFinite();

 private:
  Result<> LoadMask(const RlBatch& batch, int64_t row);
  void FindRuns();
  Result<> CheckExtras(int64_t row) const;

  std::vector<uint8_t> valid_;
};
inline constexpr double kRlLogRatioMax = 700;
inline constexpr double kRlLogProbMax = 1e-3;

}  // namespace kcc
