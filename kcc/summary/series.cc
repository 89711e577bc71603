#include "kcc/summary/series.h"

#include <array>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/drift/sampled_token.h"
#include "kcc/metric/token_slots.h"

namespace kcc {
namespace {

struct SeriesRow {
  const Quantity* quantity;
  Side side;
  std::string name;
};

const std::vector<SeriesRow>& Rows() {
  static const std::vector<SeriesRow> rows = [] {
    std::vector<SeriesRow> made;
    for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
      made.push_back({&SlotQuantity(slot), SlotSide(slot), SlotName(slot)});
    }
    for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
      if (!EstimableSlots()[slot]) continue;
      made.push_back({&SlotQuantity(slot), SlotSide(slot), "mc_" + SlotName(slot)});
    }
    for (const Quantity& quantity : Catalog()) {
      if (quantity.level != QuantityLevel::kRequest) continue;
      made.push_back({&quantity, Side::kInfer, std::string(quantity.id)});
      if (quantity.sided) {
        made.push_back({&quantity, Side::kTrain, "train_" + std::string(quantity.id)});
      }
    }
    return made;
  }();
  return rows;
}

}  // namespace

size_t SeriesCount() { return Rows().size(); }
size_t TokenSeriesCount() {
  static const size_t count = TokenSlotCount() + EstimableSlots().count();
  return count;
}

std::optional<size_t> EstimateSeries(const Quantity& quantity) {
  return FindSeries("mc_" + std::string(quantity.id));
}

size_t EstimateSeriesOfSlot(size_t slot) {
  static const auto by_slot = [] {
    std::array<size_t, kTokenSlotsMax> made{};
    size_t next = TokenSlotCount();
    for (size_t i = 0; i < TokenSlotCount(); ++i) {
      if (EstimableSlots()[i]) made[i] = next++;
    }
    return made;
  }();
  return by_slot[slot];
}

size_t SeriesOf(const Quantity& quantity, Side side) {
  const std::vector<SeriesRow>& rows = Rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool estimate = i >= TokenSlotCount() && i < TokenSeriesCount();
    if (!estimate && rows[i].quantity == &quantity && rows[i].side == side) return i;
  }
  KCC_CHECK(false);
  return 0;
}

std::optional<size_t> FindSeries(std::string_view name) {
  const std::vector<SeriesRow>& rows = Rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name == name) return i;
  }
  return std::nullopt;
}

size_t SourceSeries(const Quantity& quantity) {
  // Asked for every request, so that the search by name is done once.
  static const auto by_row = [] {
    std::vector<size_t> made(Catalog().size());
    for (const Quantity& row : Catalog()) {
      const Quantity& source = SourceOf(row);
      const bool derived = &source != &row && source.level == QuantityLevel::kToken;
      made[CatalogIndex(row)] = derived ? SeriesOf(source) : SeriesCount();
    }
    return made;
  }();
  const size_t series = by_row[CatalogIndex(quantity)];
  KCC_CHECK(series < SeriesCount());
  return series;
}

size_t Top1Series() {
  static const size_t series = *FindSeries("top1_overlap");
  return series;
}

const std::string& SeriesName(size_t series) { return Rows()[series].name; }
const Quantity& SeriesQuantity(size_t series) { return *Rows()[series].quantity; }
Side SeriesSide(size_t series) { return Rows()[series].side; }

}  // namespace kcc
