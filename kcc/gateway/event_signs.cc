#include "kcc/gateway/event_signs.h"

#include <string.h>  // memmem

#include "kcc/gateway/json_scan.h"

namespace kcc {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

size_t Find(std::string_view text, std::string_view what, size_t from) {
  if (from >= text.size()) return std::string_view::npos;
  const void* const at = memmem(text.data() + from, text.size() - from, what.data(), what.size());
  return at == nullptr ? std::string_view::npos
                       : static_cast<size_t>(static_cast<const char*>(at) - text.data());
}

// What stands behind a key that ends at `at`, its colon and blanks; empty: it is no key.
std::string_view ValueAt(std::string_view text, size_t at) {
  at = text.find_first_not_of(kBlanks, at);
  if (at == std::string_view::npos || text[at] != ':') return {};
  at = text.find_first_not_of(kBlanks, at + 1);
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}

struct Sign {
  std::string_view key;  // with its quotes
  char opening;
  char closing;  // directly behind the opening one, it means nothing
};
constexpr Sign kSigns[] = {
    {"\"content\"", '"', '"'},           {"\"text\"", '"', '"'},
    {"\"finish_reason\"", '"', '"'},     {"\"tool_calls\"", '[', ']'},
    {"\"reasoning_content\"", '"', '"'}, {"\"reasoning\"", '"', '"'},
    {"\"refusal\"", '"', '"'},           {"\"function_call\"", '{', '}'},
};

}  // namespace

bool HasContent(std::string_view chunk) {
  for (const Sign& sign : kSigns) {
    for (size_t at = 0; (at = Find(chunk, sign.key, at)) != std::string_view::npos;) {
      at += sign.key.size();
      const std::string_view value = ValueAt(chunk, at);
      if (value.size() >= 2 && value[0] == sign.opening && value[1] != sign.closing) return true;
    }
  }
  return false;
}

std::optional<int> ErrorStatusOf(std::string_view chunk) {
  JsonParts parts(chunk);
  JsonPart first;
  if (!parts.object() || !parts.Next(&first)) return std::nullopt;
  std::string_view error;
  if (KeyIs(first.key, "error") && first.value != "null") {
    error = first.value;
  } else if (KeyIs(first.key, "object") && first.value == "\"error\"") {
    error = chunk;
  } else {
    return std::nullopt;
  }
  const auto code = JsonMemberOf(error, "code");
  const int64_t status = code ? JsonIntegerOf(*code).value_or(500) : 500;
  return status >= 400 && status < 600 ? static_cast<int>(status) : 500;
}

std::string FingerprintOf(std::string_view answer) {
  constexpr std::string_view kKey = "\"system_fingerprint\"";
  // Most servers write it near the end.
  const size_t at = answer.rfind(kKey);
  if (at == std::string_view::npos) return {};
  const std::string_view value = ValueAt(answer, at + kKey.size());
  if (!value.starts_with('"')) return {};
  JsonCursor cursor(value);
  std::string_view text;
  if (!cursor.Skip(&text)) return {};
  return JsonTextOf(text).value_or("");
}

bool LooksLikeObject(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  const size_t last = text.find_last_not_of(kBlanks);
  return first != std::string_view::npos && first < last && text[first] == '{' && text[last] == '}';
}

}  // namespace kcc
