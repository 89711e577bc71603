// Base64 (RFC 4648) as DSSE uses it: written in the standard alphabet, read in the standard or the
// URL-safe one, since both are allowed there.
//
// Reading is strict, so that one text has one meaning: padding is there, the bits behind the last
// byte are 0, nothing else stands in the text, and the two alphabets do not mix.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kcc {

std::string EncodeBase64(std::string_view bytes);

// None: the text is not base64.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace kcc
