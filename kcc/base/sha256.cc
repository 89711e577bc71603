// By OpenSSL's plain functions, though version 3 calls them deprecated. The ones it advises set the
// library up when first used, and where memory runs out in the middle of that the process dies in
// it or finds no SHA-256 for the rest of its life. These allocate nothing and cannot fail.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "kcc/base/sha256.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "kcc/base/check.h"

namespace kcc {
namespace {
constexpr std::string_view kPrefix = "sha256:";
constexpr size_t kDigestBytes = SHA256_DIGEST_LENGTH;
}  // namespace

struct Sha256::Context {
  SHA256_CTX state;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  KCC_CHECK(SHA256_Init(&context_->state) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::string_view bytes) {
  KCC_CHECK(SHA256_Update(&context_->state, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Finish() {
  std::array<unsigned char, kDigestBytes> digest{};
  KCC_CHECK(SHA256_Final(digest.data(), &context_->state) == 1);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text(kPrefix);
  for (const unsigned char byte : digest) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

std::string Sha256Of(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

bool IsSha256(std::string_view text) {
  if (!text.starts_with(kPrefix) || text.size() != kPrefix.size() + 2 * kDigestBytes) return false;
  text.remove_prefix(kPrefix.size());
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace kcc
