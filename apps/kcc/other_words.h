// What else people call what kcc does. Somebody on call types the word that other tools have; each
// of them leads to the command, or says in a sentence what there is instead.
#pragma once

#include <string_view>

namespace kcc::cli {

// What to do instead of `kcc WORD`; empty for a word that says nothing.
std::string_view InsteadOf(std::string_view word);

}  // namespace kcc::cli
