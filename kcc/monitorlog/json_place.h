// Where something stands in a line of JSON, for messages. simdjson's DOM does not say: the text is
// gone through once more, after an error alone.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kcc {

// A step from a value to one inside it: a member of an object, or an element of a list.
struct JsonStep {
  std::string_view key;
  size_t index = 0;
  bool of_list = false;
};

// Column, from 1, of the value that the steps lead to. Where they lead nowhere, of the last value
// that they reached; where the text is not JSON before that, of the first byte that is not.
int ColumnOfValue(std::string_view text, std::span<const JsonStep> steps);

// Column of the last member's key instead. Where the key stands twice, of the second.
int ColumnOfKey(std::string_view text, std::span<const JsonStep> steps);

// Column of the first byte that is not JSON; of the end where all of them are.
int ColumnOfFault(std::string_view text);

}  // namespace kcc
