// The fast backend: every token quantity of the catalog from full logits, close to the speed of
// reading them.
//
// The sum for tv needs every entry of a row once more when the rest of it is known. It costs least
// while the next row is summed, which overwrites what it reads: BeginRowSimd leaves it open.
//
// Same bits on every target, and for BF16 the bits of the same values stored as F32. Down to KL =
// 1e-12, KL, reverse KL, TV and the chi-squareds are within 2e-6 of the exact value on rows like a
// model's (accuracy_bands_test.cc), within 4e-6 on the worst that were found (accuracy_test.cc):
// the series are off by up to 1.5e-7 of x^2/2, and the sums may cancel to a twelfth. At a
// temperature other than 1 log-ratios are rounded, and those of 2 to 16 leave 3e-5. The l2 norms of
// differences are within 1.6e-5 (within 2e-6 unless the differences are nearly all alike);
// entropies within 4e-6 of the terms they are the difference of, or 1e-11 nats.
// bench/drift_search.cc asks all of this of rows with masks. Rows that the vector kernels do not
// take (a mask on one side, log-ratios over 16) are measured by the reference backend, tens of
// times slower. js and hellinger, on demand, cost a few times the rest.
#pragma once

#include <cstdint>
#include <vector>

#include "kcc/drift/row_end.h"
#include "kcc/drift/row_kernels.h"
#include "kcc/drift/token_drift.h"

namespace kcc {

// The tv of a row whose weights are still in the scratch.
struct OpenRow {
  TokenDrift* to = nullptr;  // null: nothing is open
  Target target = Target::kScalar;
  size_t entries = 0;
  size_t blocks_done = 0;
  OpenVariation variation;
  double lanes[16] = {};

  void Add(const float* block) {
    for (size_t lane = 0; lane < 16; ++lane) lanes[lane] += double{block[lane]};
    ++blocks_done;
  }
};

// Working memory of one thread, reused from row to row; grows to about 10 bytes per entry.
struct RowScratch {
  struct alignas(64) Line {
    float at[16];
  };
  std::vector<Line> weights;  // BlockArgs::scratch
  std::vector<float> train;   // rows converted to float32, or freed of masked entries
  std::vector<float> infer;
  std::vector<int32_t> ids;  // of the entries that are left
  std::vector<BlockSums> blocks;
  std::vector<int> ranges;
  std::vector<int32_t> peaks;
  std::vector<float> block_train;  // one block without the carried tokens
  std::vector<float> block_infer;
  std::vector<size_t> carried_at;
  std::vector<CarriedToken> carried;
  OpenRow open;
};

// As MeasureRowReference, with the same errors. `next`, if known, is the row pair to be measured
// after this one: its beginning is fetched while this one is finished.
// Precondition: the CPU has the target.
Result<> MeasureRowSimd(const RowPair& pair, const SlotSet& wanted, Target target,
                        RowScratch* scratch, TokenDrift* out, const RowPair* next = nullptr);

// The same for many rows in a row: tv of `out`, which must stay where it is, is known only after
// the next call with this scratch that succeeds, or after FinishRowSimd. The bits are the same.
// All but tv has passed CheckRow (row_check.h) by then; whoever takes the row asks again.
Result<> BeginRowSimd(const RowPair& pair, const SlotSet& wanted, Target target,
                      RowScratch* scratch, TokenDrift* out, const RowPair* next = nullptr);
void FinishRowSimd(RowScratch* scratch);

}  // namespace kcc
