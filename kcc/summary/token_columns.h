// The latest tokens of a request, held back so that they are added series by series: all that one
// series touches stays in the nearest cache, and the worst of many values are found at once.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kcc/summary/moments.h"

namespace kcc {

class TokenColumns {
 public:
  static constexpr size_t kRoom = WorstList::kOfferMax;

  // Successive tokens of one part of the request.
  struct Run {
    size_t part = 0;
    size_t first = 0;
    size_t count = 0;
  };

  explicit TokenColumns(size_t columns)
      : exact_(columns, true), low_(columns * kRoom), high_(columns * kRoom) {}

  bool full() const { return places_.size() == kRoom; }
  bool empty() const { return places_.empty(); }

  // A new token, whose values all are missing until they are set. Precondition: not full.
  void Begin(size_t part, TokenPlace place) {
    if (runs_.empty() || runs_.back().part != part) runs_.push_back({part, places_.size(), 0});
    ++runs_.back().count;
    places_.push_back(place);
  }
  // For every column in turn, of the token begun last.
  void Set(size_t column, double low, double high) {
    const size_t at = column * kRoom + places_.size() - 1;
    low_[at] = low;
    high_[at] = high;
    exact_[column] = exact_[column] && low == high;
  }
  void SetMissing(size_t column) {
    Set(column, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN());
  }
  void Clear() {
    places_.clear();
    runs_.clear();
    exact_.assign(exact_.size(), true);
  }

  const std::vector<Run>& runs() const { return runs_; }
  std::span<const TokenPlace> places() const { return places_; }
  // Whether every value of the column is known exactly.
  bool exact(size_t column) const { return exact_[column] != 0; }
  static bool IsMissing(double low) { return std::isnan(low); }
  std::span<const double> low(size_t column) const { return Column(low_, column); }
  std::span<const double> high(size_t column) const { return Column(high_, column); }

 private:
  std::span<const double> Column(const std::vector<double>& values, size_t column) const {
    return std::span(values).subspan(column * kRoom, places_.size());
  }

  std::vector<uint8_t> exact_;  // by column
  std::vector<double> low_;     // by column, then by token; NaN: missing
  std::vector<double> high_;
  std::vector<TokenPlace> places_;  // by token
  std::vector<Run> runs_;
};

}  // namespace kcc
