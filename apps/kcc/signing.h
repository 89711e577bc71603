// Who signs what a command writes, and whose signatures it believes; the same flags for every
// command that signs or verifies.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/statement/keyring.h"
#include "kcc/statement/signature.h"

namespace kcc::cli {

struct SigningFlags {
  std::vector<std::string> keys;  // files with private keys
  std::string sign_with;          // or a command that signs
  std::string public_key;         // of that command
  double timeout_s = 60;          // of that command

  bool any() const { return !keys.empty() || !sign_with.empty() || !public_key.empty(); }
};

using OwnedSigners = std::vector<std::unique_ptr<Signer>>;

// Checks the flags and reads the keys. None where no flag was given.
Result<OwnedSigners> OpenSigners(const SigningFlags& flags);

Result<Keyring> LoadKeyring(const std::string& file);

// "signed by ed25519 06e3…", a line for each key.
std::string SignerLines(const OwnedSigners& signers);

}  // namespace kcc::cli
