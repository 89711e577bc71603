#include "kcc/gateway/head.h"

#include <algorithm>

#include "kcc/gateway/header_rules.h"

namespace kcc {

bool SameHeaderName(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> FindHeader(std::span<const HeaderField> headers,
                                           std::string_view name) {
  for (const HeaderField& field : headers) {
    if (SameHeaderName(field.name, name)) return field.value;
  }
  return std::nullopt;
}

}  // namespace kcc
