// What a key file holds: one PEM block (RFC 7468), and in it a PKCS#8 private key (RFC 5958) of one
// of the two kinds. Read here and not by OpenSSL, whose decoder tries every format that it knows
// and leaks where memory runs out on the way.
#pragma once

#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/statement/signature.h"

namespace kcc {

// Bytes that leave no copy behind when they go.
struct SecretBytes {
  std::string bytes;
  SecretBytes() = default;
  SecretBytes(SecretBytes&&) = default;
  SecretBytes& operator=(SecretBytes&&) = default;
  ~SecretBytes();
};

struct PemBlock {
  std::string label;  // "PUBLIC KEY"
  SecretBytes der;
  bool encrypted = false;
};

// Text before the block and blanks at the ends of lines are passed over. Errors (kInvalid) say what
// to do.
Result<PemBlock> ReadPem(std::string_view pem);

inline constexpr size_t kSecretBytes = 32;  // of both kinds

struct PrivateKeyBytes {
  KeyKind kind = KeyKind::kEd25519;
  SecretBytes secret;  // kSecretBytes of them: the seed, or the number in big-endian order
};

// kInvalid: not PKCS#8, damaged, or a key of another kind. A public key that stands beside the
// secret is passed over: it is computed from the secret.
Result<PrivateKeyBytes> ReadPkcs8(std::string_view der);

Error WrongKind();  // neither of the two

// How a key is made, for the end of a message.
std::string_view HowToMakeKeys();

}  // namespace kcc
