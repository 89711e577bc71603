// Test only: the same document in another spelling.
#pragma once

#include <string>

namespace kcc {

// Keys and lists in random order (but overrides, whose order means something), comments, random
// quoting, flow or block style. Draws from RapidCheck, so it is called inside a property.
std::string Respell(const std::string& yaml);

}  // namespace kcc
