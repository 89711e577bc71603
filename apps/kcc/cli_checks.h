// What a flag's value must be, as checks for CLI11: its own print six decimals of every bound, and
// all 309 digits of the largest double.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kcc/base/strings.h"

namespace kcc::cli {

// Says what is wrong with a text; empty: nothing.
using Check = std::function<std::string(const std::string&)>;

// What to write for a percentage, which contracts take and flags do not.
inline std::string InsteadOfPercent(const std::string& text) {
  if (!text.ends_with('%')) return "";
  const auto number = ParseNumber(text.substr(0, text.size() - 1) + "e-2");
  return number ? "; write " + ShortestNumber(*number) : "";
}

// A number from `low` to `high`, both included.
inline Check Between(double low, double high) {
  return [low, high](const std::string& text) -> std::string {
    const auto number = ParseNumber(text);
    if (number && *number >= low && *number <= high) return "";
    const bool open = high == std::numeric_limits<double>::infinity();
    return "'" + text + "' is not a number " +
           (open ? "of at least " + ShortestNumber(low)
                 : "from " + ShortestNumber(low) + " to " + ShortestNumber(high)) +
           InsteadOfPercent(text);
  };
}

inline Check AtLeastZero() { return Between(0, std::numeric_limits<double>::infinity()); }

inline Check AboveZero() {
  return [](const std::string& text) -> std::string {
    const auto number = ParseNumber(text);
    return number && *number > 0 ? "" : "'" + text + "' is not a number above 0";
  };
}

// One of a few words.
inline Check OneOf(const std::vector<std::string>& words) {
  return [words](const std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return "";
    const std::vector<std::string_view> known(words.begin(), words.end());
    const auto nearest = NearestWord(text, known);
    return "'" + text + "' is none of " + JoinWords(known) +
           (nearest ? "; did you mean '" + std::string(*nearest) + "'?" : "");
  };
}

}  // namespace kcc::cli
