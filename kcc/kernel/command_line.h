// A command line split into words as a shell would: blanks separate, '…' is literal, "…" knows \"
// and \\, a backslash takes the next character as it is. Nothing is expanded, and no shell runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

// At least one word, or an error.
Result<std::vector<std::string>> SplitCommand(std::string_view text);

}  // namespace kcc
