// Token ids as files and servers hold them: integers of 64 bits, floating-point arrays, JSON
// numbers. The one way from there to the 32 bits of a trace; an id that does not fit is an error
// that says where it stands and what it is, never another token's id.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>

#include "kcc/base/result.h"
#include "kcc/base/strings.h"

namespace kcc {

inline constexpr int32_t kTokenIdMax = std::numeric_limits<int32_t>::max();

inline Error NotATokenId(const std::string& where, const std::string& value) {
  return BrokenEvidenceError(where + " is " + value +
                             ", which is no token id: an id is an integer from 0 to " +
                             std::to_string(kTokenIdMax));
}

// `where` gives the words for the place ("entry 3 of 'token_ids'"); it is called on failure alone.
template <std::invocable Where>
Result<int32_t> TokenIdFrom(int64_t value, const Where& where) {
  if (value < 0 || value > kTokenIdMax) return NotATokenId(where(), std::to_string(value));
  return static_cast<int32_t>(value);
}

template <std::invocable Where>
Result<int32_t> TokenIdFrom(double value, const Where& where) {
  if (!(value >= 0 && value <= kTokenIdMax) || value != std::floor(value)) {
    return NotATokenId(where(), ShortestNumber(value));
  }
  return static_cast<int32_t>(value);
}

}  // namespace kcc
