// A claim on a register that one process at a time can have: of gateways, the one that decides. It
// ends with the object, and with the process however that ends. Writers and readers of the register
// do not ask for it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kcc/base/result.h"

namespace kcc {

class RegisterClaim {
 public:
  // None: another process has it. Of a file it is a lock on FILE.gateway beside it, of a server an
  // advisory lock of the schema.
  static Result<std::optional<RegisterClaim>> Take(const std::string& uri);

  // What a store keeps for as long as the claim is to hold.
  struct Held {
    virtual ~Held() = default;
    // Fails where it is not held any more: a server that was restarted has forgotten it.
    virtual Result<> Check() = 0;
  };

  Result<> Check() { return held_->Check(); }
  bool on_server() const { return on_server_; }

 private:
  RegisterClaim(std::unique_ptr<Held> held, bool on_server)
      : held_(std::move(held)), on_server_(on_server) {}
  std::unique_ptr<Held> held_;
  bool on_server_;
};

// Null: another process has it.
Result<std::unique_ptr<RegisterClaim::Held>> ClaimPostgres(const std::string& uri);

}  // namespace kcc
