#include "kcc/summary/recorded.h"

#include <cmath>

#include "kcc/metric/catalog.h"

namespace kcc {

bool TimedOut(const Request& request) { return request.Flag("timed_out").value_or(false); }

std::optional<double> RecordedNumber(const Request& request, std::string_view field) {
  if (TimedOut(request)) {
    const Quantity* quantity = FindQuantity(field);
    const bool whole_time =
        quantity != nullptr && quantity->unit == Unit::kMs && quantity->taken == TakenFrom::kField;
    if (whole_time) return std::nullopt;
  }
  const auto value = request.Number(field);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<double> PossibleNumber(const Request& request, std::string_view field) {
  const auto value = RecordedNumber(request, field);
  if (!value) return value;
  const Quantity* quantity = FindQuantity(field);
  const bool possible = quantity == nullptr || (*value >= quantity->min && *value <= quantity->max);
  return possible ? value : std::nullopt;
}

}  // namespace kcc
