// Splices: pieces of a text are replaced, all other bytes stay.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kcc {

struct TextEdit {
  size_t begin = 0;
  size_t end = 0;    // of what is taken out; `begin` where nothing is
  std::string text;  // what is put in its place
};

// Edits overlap nowhere, and are put in order by this; of two at one place the first comes first.
std::string ApplyEdits(std::string_view text, std::vector<TextEdit>& edits);

}  // namespace kcc
