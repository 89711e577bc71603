#include "kcc/stats/token_ratio.h"

namespace kcc {

std::optional<UnitValue> RatioObservation(double bad, double tokens, double tokens_max,
                                          double rate) {
  if (!(bad >= 0 && bad <= tokens && tokens <= tokens_max && tokens_max >= 1)) return std::nullopt;
  if (!(rate >= 0 && rate <= 1)) return std::nullopt;
  // Both sums have non-negative terms only, so neither end loses relative precision.
  const double unused = tokens_max - tokens;
  return UnitValue{.value = (bad + rate * unused) / tokens_max,
                   .complement = (tokens - bad + (1 - rate) * unused) / tokens_max};
}

}  // namespace kcc
