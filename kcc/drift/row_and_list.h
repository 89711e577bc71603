// What full logits on one side and a top-k list on the other say about a token: an interval for
// each quantity (docs/math.md B.3b) that holds the value which full logits of both sides would have
// given, whatever the unlisted tokens are.
//
// The standard case of a trainer that records logits and a server that returns lists. The full
// side's probability is exact at every token, listed or not, so that no interval is wider than that
// of two lists, and reverse_kl and reverse_chi2 (kl and chi2 where the full side is infer) have an
// upper end.
#pragma once

#include <limits>
#include <memory>

#include "kcc/drift/top_k.h"

namespace kcc {

class FullRow;

struct RowAndList {
  const void* logits = nullptr;
  DType dtype = DType::kF32;  // F32, F16, BF16, F8_E4M3 or F8_E5M2
  Side full = Side::kTrain;   // whose logits these are; the list is the other side's
  TopList list;
  size_t vocab = 0;
  // Logits are divided by `logit_divisor` to be at the temperature that the list is at.
  double temperature = 1;
  double logit_divisor = 1;
  double rounding = 0x1p-20;  // of the list's log-probs: see top_k.h
  // The sampled token, and its log-prob on the list's side, where known.
  int32_t token = -1;
  double list_logprob = std::numeric_limits<double>::quiet_NaN();
};

class RowAndListMeter {
 public:
  RowAndListMeter();
  ~RowAndListMeter();
  RowAndListMeter(RowAndListMeter&&) noexcept;
  RowAndListMeter& operator=(RowAndListMeter&&) noexcept;

  // Adds the wanted slots; what lists leave unknown (the raw logit distances) stays so. Fails as
  // MeasureTopK does on lists and as MeasureRowReference on logits. A few tens of nanoseconds per
  // entry; memory for a row is kept.
  Result<> Measure(const RowAndList& pair, const SlotSet& wanted, TokenDrift* out);

 private:
  std::unique_ptr<FullRow> row_;
};

}  // namespace kcc
