// What any two distributions obey, asked of every measured row once it is finished:
//   kl, reverse_kl, js >= 0,   tv <= sqrt(min(kl, reverse_kl) / 2)   (Pinsker),
// with the slack of row_rules.h.
//
// Sound evidence cannot fail: rounding stays far within the slack, and the fast backends give a row
// that does not pass to the one in double first. What fails is a mistake of measurement, and the
// row is refused rather than judged.
#pragma once

#include "kcc/base/result.h"
#include "kcc/drift/row_rules.h"
#include "kcc/drift/token_drift.h"

namespace kcc {

// Fails with kBrokenEvidence, naming the quantity and its value; the caller adds request and
// position. Of an interval the end that makes the claim weakest is asked. Slots that are not known
// are not asked for.
Result<> CheckRow(const TokenDrift& drift);

}  // namespace kcc
