#include "kcc/plane/http_text.h"

#include <algorithm>
#include <array>

namespace kcc {
namespace {

constexpr std::array<bool, 256> TokenTable() {
  std::array<bool, 256> is{};
  for (char c = '0'; c <= '9'; ++c) is[static_cast<unsigned char>(c)] = true;
  for (char c = 'a'; c <= 'z'; ++c) is[static_cast<unsigned char>(c)] = true;
  for (char c = 'A'; c <= 'Z'; ++c) is[static_cast<unsigned char>(c)] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~")) is[static_cast<unsigned char>(c)] = true;
  return is;
}
constexpr std::array<bool, 256> kToken = TokenTable();

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool IsBlank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

bool IsTokenText(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return kToken[static_cast<unsigned char>(c)]; });
}

bool IsFieldValue(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7F);
  });
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return Lower(x) == Lower(y); });
}

std::string_view TrimBlanks(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view NextListItem(std::string_view* list) {
  const size_t comma = std::min(list->find(','), list->size());
  const std::string_view item = TrimBlanks(list->substr(0, comma));
  list->remove_prefix(std::min(comma + 1, list->size()));
  return item;
}

bool IsConnectionField(std::string_view name) {
  static constexpr std::string_view kNames[] = {"connection",
                                                "content-length",
                                                "expect",
                                                "host",
                                                "http2-settings",
                                                "keep-alive",
                                                "proxy-connection",
                                                "proxy-authorization",
                                                "te",
                                                "trailer",
                                                "transfer-encoding",
                                                "upgrade",
                                                "proxy-authenticate"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view known) { return EqualsIgnoringCase(name, known); });
}

void AppendField(std::string* head, std::string_view name, std::string_view value) {
  if (!IsTokenText(name) || !IsFieldValue(value)) return;
  head->append(name).append(": ").append(value).append("\r\n");
}

}  // namespace kcc
