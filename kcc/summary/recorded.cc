#include "kcc/summary/recorded.h"

#include <cmath>

namespace kcc {

bool TimedOut(const Request& request) { return request.Flag("timed_out").value_or(false); }

std::optional<double> RecordedNumber(const Request& request, std::string_view field) {
  if (field == "latency_ms" && TimedOut(request)) return std::nullopt;
  const auto value = request.Number(field);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace kcc
