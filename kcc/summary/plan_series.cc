// The numbering of a plan's series: the built-in ones, then those of the user's own metrics.
#include <algorithm>
#include <tuple>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/series.h"

namespace kcc {

void Plan::SetOwn(std::vector<OwnSeries> own) {
  const auto of_tokens = [](const OwnSeries& row) {
    return row.quantity->level == QuantityLevel::kToken;
  };
  std::sort(own.begin(), own.end(), [&](const OwnSeries& a, const OwnSeries& b) {
    return std::tuple(!of_tokens(a), std::string_view(a.name)) <
           std::tuple(!of_tokens(b), std::string_view(b.name));
  });
  own_tokens_ = static_cast<size_t>(std::count_if(own.begin(), own.end(), of_tokens));
  own_ = std::move(own);
  thresholds_.resize(SeriesCount() + own_.size());
}

size_t Plan::OwnSeriesNumber(size_t place) { return SeriesCount() + place; }

size_t Plan::token_series_end() const {
  return own_tokens_ == 0 ? TokenSeriesCount() : SeriesCount() + own_tokens_;
}

bool Plan::IsToken(size_t series) const {
  return series < SeriesCount() ? IsTokenSeries(series) : series < SeriesCount() + own_tokens_;
}

const Quantity& Plan::quantity(size_t series) const {
  return series < SeriesCount() ? SeriesQuantity(series) : *own_[series - SeriesCount()].quantity;
}

Side Plan::side(size_t series) const {
  return series < SeriesCount() ? SeriesSide(series) : own_[series - SeriesCount()].side;
}

const std::string& Plan::name(size_t series) const {
  return series < SeriesCount() ? SeriesName(series) : own_[series - SeriesCount()].name;
}

std::optional<size_t> Plan::FindSeries(const Quantity& quantity, Side side) const {
  if (quantity.own == nullptr) return kcc::SeriesOf(quantity, side);
  // By the row and not by its name: rows are one per definition.
  for (size_t i = 0; i < own_.size(); ++i) {
    if (own_[i].quantity == &quantity && own_[i].side == side) return OwnSeriesNumber(i);
  }
  return std::nullopt;
}

std::optional<size_t> Plan::FindSeries(std::string_view name) const {
  if (const auto built_in = kcc::FindSeries(name)) return built_in;
  for (size_t i = 0; i < own_.size(); ++i) {
    if (own_[i].name == name) return OwnSeriesNumber(i);
  }
  return std::nullopt;
}

size_t Plan::SeriesOf(const Quantity& quantity, Side side) const {
  const std::optional<size_t> series = FindSeries(quantity, side);
  KCC_CHECK(series.has_value());
  return *series;
}

std::vector<const Quantity*> Plan::own_rows() const {
  std::vector<const Quantity*> rows;
  for (const OwnSeries& row : own_) rows.push_back(row.quantity);
  std::sort(rows.begin(), rows.end(),
            [](const Quantity* a, const Quantity* b) { return a->id < b->id; });
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

}  // namespace kcc
