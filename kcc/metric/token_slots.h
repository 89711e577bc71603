// A dense numbering of what can be known about one token: every token-level quantity of the
// catalog, and its train_ side where it has one. Drift kernels fill arrays by slot, summaries
// accumulate by slot.
#pragma once

#include <cstddef>
#include <string>

#include "kcc/metric/metric.h"

namespace kcc {

// An upper bound for fixed arrays; token_slots.cc checks the catalog against it.
inline constexpr size_t kTokenSlotsMax = 40;

size_t TokenSlotCount();

// Precondition: a token-level quantity; side kTrain only if it is sided.
size_t TokenSlot(const Quantity& quantity, Side side = Side::kInfer);
// By the name a metric would use: "kl", "train_entropy". Precondition: it exists.
size_t TokenSlot(std::string_view name);

const Quantity& SlotQuantity(size_t slot);
Side SlotSide(size_t slot);
std::string SlotName(size_t slot);

}  // namespace kcc
