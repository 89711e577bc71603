// Keeping a secret out of messages that quote somebody else's words.
#pragma once

#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

// `text` with every occurrence of `secret` replaced by three copies of one character, "***" unless
// the secret holds an asterisk. The character is one that the secret does not hold, so the result
// never holds the secret, whatever stands around a replacement. One pass; an empty secret hides
// nothing.
std::string WithoutSecret(std::string_view text, std::string_view secret);

// The same error with the secret out of its message.
Error WithoutSecret(const Error& error, std::string_view secret);

}  // namespace kcc
