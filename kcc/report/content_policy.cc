#include "kcc/report/content_policy.h"

#include <cstdint>

#include "kcc/base/sha256.h"

namespace kcc {
namespace {

int HexDigit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = (group << 8) | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += i + k > bytes.size() ? '=' : kAlphabet[(group >> (18 - 6 * k)) & 63];
    }
  }
  return out;
}

}  // namespace

std::string SourceHash(std::string_view source) {
  const std::string digest = Sha256Of(source);
  const std::string_view hex = std::string_view(digest).substr(std::string_view("sha256:").size());
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(HexDigit(hex[i]) * 16 + HexDigit(hex[i + 1]));
  }
  return "'sha256-" + Base64(bytes) + "'";
}

}  // namespace kcc
