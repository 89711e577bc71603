// What two kernels said about one token, and what that amounts to: every token-level quantity of
// the catalog, by slot (metric/token_slots.h).
//
// p = softmax(train / temperature), q = softmax(infer / temperature). Entries at or beyond `vocab`
// are padding and are never read. -inf on both sides of an entry is a mask; on one side it is a
// real zero probability (kl or reverse_kl may then be +inf). A finite constant in its place is a
// logit like any other, however large; a probability that no double can hold weighs nothing
// (row_rules.h). NaN and +inf are refused.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/metric/token_slots.h"

namespace kcc {

using SlotSet = std::bitset<kTokenSlotsMax>;

// Full logits of one token from both sides. Rows need no alignment beyond their element's.
struct RowPair {
  const void* train = nullptr;
  const void* infer = nullptr;
  DType train_dtype = DType::kF32;  // F32, F16, BF16, F8_E4M3 or F8_E5M2
  DType infer_dtype = DType::kF32;
  size_t vocab = 0;
  double temperature = 1.0;
  int32_t token = -1;  // the sampled token; -1: none, then its slots are absent
};

// A top-k list: ids with log-probs, in the kernel's order of rank.
struct TopList {
  std::span<const int32_t> ids;
  std::span<const float> logprobs;
};

// Values by slot. With full logits lo == hi; top-k evidence gives intervals (docs/math.md B); a
// slot whose evidence is missing is not in `known`. +inf is a value: the quantity overflowed.
struct TokenDrift {
  std::array<double, kTokenSlotsMax> lo{};
  std::array<double, kTokenSlotsMax> hi{};
  SlotSet known;
  // For calibration: each side's most likely token and its probability (full logits only).
  std::array<int32_t, 2> argmax = {-1, -1};  // indexed by Side
  std::array<double, 2> confidence = {0, 0};
  // Each side's log-prob of the sampled token, as its quantities were computed from; NaN: not
  // known.
  std::array<double, 2> logprob = {std::numeric_limits<double>::quiet_NaN(),
                                   std::numeric_limits<double>::quiet_NaN()};

  void Set(size_t slot, double value) { SetInterval(slot, value, value); }
  void SetInterval(size_t slot, double low, double high) {
    lo[slot] = low;
    hi[slot] = high;
    known.set(slot);
  }
};

}  // namespace kcc
