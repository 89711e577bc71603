#include "kcc/kernel/secret.h"

namespace kcc {
namespace {

// A character that the secret does not hold; a key that holds all of ASCII's cannot be sent in a
// header, and a line end is never part of one.
char Cover(std::string_view secret) {
  if (secret.find('*') == std::string_view::npos) return '*';
  for (char c = '#'; c < '\x7f'; ++c) {
    if (secret.find(c) == std::string_view::npos) return c;
  }
  return '\n';
}

}  // namespace

std::string WithoutSecret(std::string_view text, std::string_view secret) {
  if (secret.empty()) return std::string(text);
  const std::string cover(3, Cover(secret));
  std::string hidden;
  for (;;) {
    const size_t at = text.find(secret);
    hidden += text.substr(0, at);
    if (at == std::string_view::npos) return hidden;
    hidden += cover;
    text.remove_prefix(at + secret.size());
  }
}

Error WithoutSecret(const Error& error, std::string_view secret) {
  return Error(error.code(), WithoutSecret(error.message(), secret), error.place());
}

}  // namespace kcc
