#include "kcc/base/sha256.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <new>
#include <stdexcept>

#include "kcc/base/check.h"

namespace kcc {
namespace {
constexpr std::string_view kPrefix = "sha256:";
constexpr size_t kDigestBytes = 32;
}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  Context() {
    if (md == nullptr) throw std::bad_alloc();
  }
  ~Context() { EVP_MD_CTX_free(md); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr) == 1) return;
  ERR_clear_error();  // what it noted for this thread, which nobody reads
  throw std::runtime_error("OpenSSL gives no SHA-256: out of memory, or set up without it");
}

Sha256::~Sha256() = default;

void Sha256::Update(std::string_view bytes) {
  KCC_CHECK(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Finish() {
  std::array<unsigned char, kDigestBytes> digest{};
  KCC_CHECK(EVP_DigestFinal_ex(context_->md, digest.data(), nullptr) == 1);
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
