#include "kcc/metric/token_slots.h"

#include <array>

#include "kcc/base/check.h"

namespace kcc {
namespace {

struct Slot {
  const Quantity* quantity;
  Side side;
};

struct SlotTable {
  std::array<Slot, kTokenSlotsMax> rows{};
  size_t count = 0;
};

const SlotTable& Table() {
  static const SlotTable table = [] {
    SlotTable made;
    const auto add = [&](const Quantity& quantity, Side side) {
      KCC_CHECK(made.count < kTokenSlotsMax);
      made.rows[made.count++] = {&quantity, side};
    };
    for (const Quantity& quantity : Catalog()) {
      if (quantity.level != QuantityLevel::kToken) continue;
      add(quantity, Side::kInfer);
      if (quantity.sided) add(quantity, Side::kTrain);
    }
    return made;
  }();
  return table;
}

}  // namespace

size_t TokenSlotCount() { return Table().count; }

size_t TokenSlot(const Quantity& quantity, Side side) {
  const SlotTable& table = Table();
  for (size_t i = 0; i < table.count; ++i) {
    if (table.rows[i].quantity == &quantity && table.rows[i].side == side) return i;
  }
  KCC_CHECK(false);
  return 0;
}

size_t TokenSlot(std::string_view name) {
  for (size_t i = 0; i < TokenSlotCount(); ++i) {
    if (SlotName(i) == name) return i;
  }
  KCC_CHECK(false);
  return 0;
}

const Quantity& SlotQuantity(size_t slot) {
  KCC_CHECK(slot < TokenSlotCount());
  return *Table().rows[slot].quantity;
}

Side SlotSide(size_t slot) {
  KCC_CHECK(slot < TokenSlotCount());
  return Table().rows[slot].side;
}

std::string SlotName(size_t slot) {
  return MetricName({&SlotQuantity(slot), Aggregate::kNone, SlotSide(slot)});
}

}  // namespace kcc
