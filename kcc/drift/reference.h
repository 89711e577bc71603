// The readable backend: every token quantity of the catalog from full logits, in double.
//
// It defines what the SIMD and CUDA backends must agree with, and it is their answer to rows they
// do not take (one-sided -inf, logits hundreds apart). Built on numeric/double_math.h, so it gives
// the same bits on every CPU.
#pragma once

#include "kcc/drift/token_drift.h"

namespace kcc {

// Adds the wanted slots to `out`. The quantities of the sampled token are absent where pair.token
// is -1. Fails on NaN and +inf (naming side and entry), on a side without any finite logit, and on
// a sampled token that is -inf on both sides. A few tens of nanoseconds per entry.
Result<> MeasureRowReference(const RowPair& pair, const SlotSet& wanted, TokenDrift* out);

}  // namespace kcc
