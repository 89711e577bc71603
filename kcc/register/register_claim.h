// A claim on a register in a file that one process at a time can have: of gateways, the one that
// decides. It ends with the object, and with the process however that ends. Writers and readers of
// the register do not ask for it. Gateways at a register on a server: gateway_peers.h.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "kcc/base/descriptor.h"
#include "kcc/base/result.h"

namespace kcc {

class RegisterClaim {
 public:
  // A lock on FILE.gateway beside the register. None: another process has it. Fails with kInvalid
  // where the register is on a server.
  static Result<std::optional<RegisterClaim>> Take(const std::string& uri);

 private:
  explicit RegisterClaim(FileDescriptor lock) : lock_(std::move(lock)) {}
  FileDescriptor lock_;
};

}  // namespace kcc
