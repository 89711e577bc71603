// Errors as OpenAI's clients read them: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>
#include <string_view>

#include "kcc/gateway/head.h"

namespace kcc {

// An empty `param` or `code` is written as null; the type follows from the status.
std::string ErrorJson(int status, std::string_view message, std::string_view param,
                      std::string_view code);
GatewayAnswer ErrorAnswer(int status, std::string_view message, std::string_view param,
                          std::string_view code);
// The event that ends a stream which broke off after its first content; no [DONE] comes after it.
std::string ErrorEvent(int status, std::string_view message, std::string_view code);

}  // namespace kcc
