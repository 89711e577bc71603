// Whom a request on the faults' port was meant for. A page of elsewhere whose name was made to lead
// here is not the operator, whatever its name begins with.
#pragma once

#include <string_view>

namespace kcc {

// Of a Host field.
inline bool IsLocalHost(std::string_view host) {
  host = host.substr(0, host.find(':'));
  return host == "127.0.0.1" || host == "localhost";
}

}  // namespace kcc
