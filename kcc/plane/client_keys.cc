#include "kcc/plane/client_keys.h"

#include <algorithm>

#include "kcc/base/sha256.h"
#include "kcc/plane/http_text.h"

namespace kcc {

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!EqualsIgnoringCase(authorization.substr(0, kScheme.size()), kScheme)) return {};
  return TrimBlanks(authorization.substr(kScheme.size()));
}

Result<ClientKeys> ClientKeys::Of(std::span<const std::string> hashes) {
  ClientKeys keys;
  for (const std::string& text : hashes) {
    std::string hash = text.starts_with("sha256:") ? text : "sha256:" + text;
    std::transform(hash.begin(), hash.end(), hash.begin(),
                   [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; });
    if (!IsSha256(hash)) {
      return InvalidError("a client key's hash is not the 64 hexadecimal digits of a SHA-256");
    }
    keys.hashes_.push_back(std::move(hash));
  }
  return keys;
}

bool ClientKeys::Knows(std::string_view authorization) const {
  if (any()) return true;
  const std::string_view key = BearerKey(authorization);
  if (key.empty()) return false;
  const std::string hash = Sha256Of(key);
  bool known = false;
  for (const std::string& one : hashes_) known |= EqualInConstantTime(one, hash);
  return known;
}

}  // namespace kcc
