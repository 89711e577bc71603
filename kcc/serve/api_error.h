// Errors as OpenAI's clients read them: {"error": {"message", "type", "param", "code"}} and a
// status.
#pragma once

#include <string>

namespace kcc {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // the field it is about; empty: none
  std::string code;   // a word for programs; empty: none

  // "invalid_request_error", "rate_limit_error", "server_error" …, by the status.
  std::string Type() const;
  // The body.
  std::string Json() const;
};

}  // namespace kcc
