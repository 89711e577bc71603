#include "kcc/drift/row_check.h"

#include <algorithm>
#include <limits>
#include <string>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

struct CheckedSlots {
  size_t kl = TokenSlot("kl");
  size_t reverse_kl = TokenSlot("reverse_kl");
  size_t js = TokenSlot("js");
  size_t tv = TokenSlot("tv");
};

Error Broken(const std::string& what) {
  return BrokenEvidenceError(what +
                             "; no two distributions do that, so the row was measured wrongly: "
                             "please report it with its logits");
}

}  // namespace

Result<> CheckRow(const TokenDrift& drift) {
  static const CheckedSlots slots;
  for (const size_t slot : {slots.kl, slots.reverse_kl, slots.js}) {
    if (!drift.known[slot] || !IsBelowZero(drift.hi[slot])) continue;
    return Broken(SlotName(slot) + " is " + ShortestNumber(drift.hi[slot]));
  }
  if (!drift.known[slots.tv]) return {};
  double kl = std::numeric_limits<double>::infinity();
  for (const size_t slot : {slots.kl, slots.reverse_kl}) {
    if (drift.known[slot]) kl = std::min(kl, drift.hi[slot]);
  }
  if (!BreaksPinsker(drift.lo[slots.tv], kl)) return {};
  return Broken("tv is " + ShortestNumber(drift.lo[slots.tv]) +
                " where the smaller KL divergence is " + ShortestNumber(kl));
}

}  // namespace kcc
