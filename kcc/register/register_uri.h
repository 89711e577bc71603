// Which register a URI names: a file or a server.
#pragma once

#include <string>

#include "kcc/base/result.h"

namespace kcc {

struct RegisterUri {
  bool postgres = false;
  std::string target;  // the path, or the URI as libpq takes it
};

// "PATH", "sqlite:PATH", "postgresql://…" or "postgres://…"; other schemes are refused.
Result<RegisterUri> ParseRegisterUri(const std::string& uri);

// The URI without its password, for messages.
std::string ShownUri(const std::string& uri);

}  // namespace kcc
