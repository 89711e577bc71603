// Keys and signatures: Ed25519 (RFC 8032), and ECDSA on P-256 with SHA-256, whose signatures are
// the ASN.1 DER that securesystemslib and OpenSSL write. No other kind is read.
//
// Keys are PEM: PKCS#8 ("PRIVATE KEY", not encrypted) and SubjectPublicKeyInfo ("PUBLIC KEY"). A
// public key has one accepted encoding (named curve, uncompressed point), so it has one id: the
// SHA-256 of that DER, as 64 lower-case hexadecimal digits. Two encodings of one key would count as
// two keys where a threshold asks for two.
//
// The library is OpenSSL 3. Where its memory runs out, std::bad_alloc is thrown: a signature that
// could not be checked must not pass for a forged one, nor for a good one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

enum class KeyKind : uint8_t { kEd25519, kEcdsaP256 };
std::string_view Name(KeyKind kind);  // "ed25519", "ecdsa-p256"

// Lets OpenSSL load what it needs. It does so when it is first used, and where memory runs out in
// the middle of that it leaks, or fails with another reason. So more than it takes is asked for
// here, where its lack is an exception, and given back. Keys come here by themselves; a program
// that must not fail so calls it while there is memory.
void PrepareSignatures();

inline constexpr size_t kPemBytesMax = size_t{64} << 10;

// Owns what OpenSSL holds of a key, so that its headers stay in the .cc file.
struct KeyHandle;
struct KeyHandleDeleter {
  void operator()(KeyHandle* handle) const;
};
using OwnedKey = std::unique_ptr<KeyHandle, KeyHandleDeleter>;

class PublicKey {
 public:
  // One "PUBLIC KEY" block. Errors (kInvalid) say what it is instead and what to do.
  static Result<PublicKey> FromPem(std::string_view pem);
  // The DER inside such a block.
  static Result<PublicKey> FromDer(std::string_view der);

  KeyKind kind() const { return kind_; }
  const std::string& id() const { return id_; }
  std::string Pem() const;
  // False for a signature of another key, of other bytes, or that is none.
  bool Verify(std::string_view bytes, std::string_view signature) const;

 private:
  PublicKey(KeyKind kind, std::string der, OwnedKey key);
  KeyKind kind_;
  std::string der_;
  std::string id_;
  OwnedKey key_;
};

// Signs bytes. What it gives has been verified with public_key(): a broken program or a key file
// whose halves do not belong together fails here and not with whoever reads the signature.
class Signer {
 public:
  virtual ~Signer() = default;
  virtual const PublicKey& public_key() const = 0;
  Result<std::string> Sign(std::string_view bytes) const;

 private:
  virtual Result<std::string> MakeSignature(std::string_view bytes) const = 0;
};

// With a private key in memory. Encrypted keys, and keys in older forms than PKCS#8, are refused
// with the command that converts them.
Result<std::unique_ptr<Signer>> SignerFromPem(std::string_view pem);

}  // namespace kcc
