#include "kcc/contract/yaml_writer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "kcc/base/check.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr size_t kColumnsMax = 100;
constexpr size_t kIndent = 2;
// A reader may look for the ':' of a plain key within 1,024 characters only.
constexpr size_t kSimpleKeyBytesMax = 512;

// One character of valid UTF-8.
struct Character {
  uint32_t point = 0;
  size_t size = 1;
};

Character CharacterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (at + size > text.size()) return {lead, 1};
  uint32_t point = lead & (0xFFu >> (size + 1));
  for (size_t i = 1; i < size; ++i) point = (point << 6) | (byte(i) & 0x3Fu);
  return {point, size};
}

// Control characters, line separators, byte order marks and marks that turn the direction of text:
// never written as they are.
bool IsHidden(uint32_t point) {
  return point < 0x20 || (point >= 0x7F && point <= 0x9F) || point == 0x061C ||
         (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2060 && point <= 0x206F) || point == 0xFEFF ||
         (point >= 0xFFF9 && point <= 0xFFFF && point != 0xFFFD);
}

bool IsLetterOrDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// What some YAML reader would take for a number, a date, a boolean or null.
bool LooksTyped(std::string_view text) {
  constexpr std::array<std::string_view, 10> kWords = {"null", "~",  "true", "false", "yes",
                                                       "no",   "on", "off",  "y",     "n"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (std::find(kWords.begin(), kWords.end(), lower) != kWords.end()) return true;
  if (text[0] < '0' || text[0] > '9') return false;
  if (lower.starts_with("0x") || lower.starts_with("0o") || lower.starts_with("0b")) return true;
  std::erase(lower, '_');
  return ParseNumber(lower).has_value() ||
         lower.find_first_not_of("0123456789.:-+tz ") == std::string::npos;
}

// Whether every YAML reader gives the text back from its plain form. It is a list of what is known
// to be harmless rather than of what is not: quotes too many cost nothing, quotes missing change
// what a contract means.
bool IsPlain(std::string_view text) {
  if (text.empty() || LooksTyped(text)) return false;
  const auto first = static_cast<unsigned char>(text[0]);
  if (!IsLetterOrDigit(text[0]) && first < 0x80 && text[0] != '_' && text[0] != '/') return false;
  if (text.back() == ' ') return false;
  for (size_t i = 0; i < text.size();) {
    const Character character = CharacterAt(text, i);
    if (IsHidden(character.point)) return false;
    constexpr std::string_view kHarmless = " _-./+()';<>=~^$";
    if (character.size == 1 && !IsLetterOrDigit(text[i]) &&
        kHarmless.find(text[i]) == kHarmless.npos) {
      return false;
    }
    i += character.size;
  }
  return true;
}

void AppendEscaped(std::string_view text, const Character& character, std::string* out) {
  switch (character.point) {
    case '"':
    case '\\':
      (*out += '\\') += text[0];
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\t':
      *out += "\\t";
      return;
    case '\r':
      *out += "\\r";
      return;
    default:
      break;
  }
  if (!IsHidden(character.point)) {
    out->append(text.substr(0, character.size));
    return;
  }
  std::array<char, 12> code{};
  std::snprintf(code.data(), code.size(), "\\u%04X", character.point);
  *out += code.data();
}

std::string DoubleQuoted(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const Character character = CharacterAt(text, i);
    AppendEscaped(text.substr(i), character, &out);
    i += character.size;
  }
  return out += '"';
}

// Single quotes and literal blocks have no escapes, so neither can hold what must be escaped.
bool HasHidden(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Character character = CharacterAt(text, i);
    if (IsHidden(character.point)) return true;
    i += character.size;
  }
  return false;
}

// A literal block scalar keeps the text as it is only if nothing in it depends on invisible blanks.
bool FitsLiteral(std::string_view text) {
  if (text.find('\n') == text.npos || text.ends_with("\n\n")) return false;
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.empty() || text[0] == ' ' || text[0] == '\n') return false;
  while (true) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.ends_with(' ') || HasHidden(line)) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

// One line, or nothing if the value cannot or should not be put on one.
std::optional<std::string> Flow(const YamlValue& value, size_t columns) {
  std::string out;
  switch (value.kind) {
    case YamlValue::Kind::kToken:
      out = value.text;
      break;
    case YamlValue::Kind::kText:
      if (FitsLiteral(value.text)) return {};
      out = YamlScalar(value.text);
      break;
    case YamlValue::Kind::kList:
      if (value.block) return {};
      for (const YamlValue& item : value.items) {
        const std::optional<std::string> flow = Flow(item, columns);
        if (!flow || out.size() > columns) return {};
        out.append(out.empty() ? "" : ", ").append(*flow);
      }
      out = "[" + out + "]";
      break;
    case YamlValue::Kind::kMap:
      if (value.block) return {};
      for (const auto& [key, entry] : value.entries) {
        const std::optional<std::string> flow = Flow(entry, columns);
        if (!flow || out.size() > columns) return {};
        out.append(out.empty() ? "" : ", ").append(YamlScalar(key)).append(": ").append(*flow);
      }
      out = "{" + out + "}";
      break;
  }
  if (out.size() > columns) return {};
  return out;
}

// The form depends on the value alone: one line where it fits, else a block. So a contract is
// always written with the same bytes. Example, with a list that fits beside its key and a map that
// does not:
//
//     slices: [all, safety]
//     escalation:
//       onError: freeze
class Writer {
 public:
  std::string Run(const YamlValue& map) {
    Map(map, 0, false);
    return std::move(out_);
  }

 private:
  void Indent(size_t indent) { out_.append(indent, ' '); }

  // The keys of a map at `indent`; the first key may stand behind a list's "- " already.
  void Map(const YamlValue& map, size_t indent, bool first_is_placed) {
    for (const auto& [key, value] : map.entries) {
      if (!first_is_placed) Indent(indent);
      first_is_placed = false;
      const std::string scalar = YamlScalar(key);
      // A longer key needs the two-line form "? key" and ": value".
      if (scalar.size() > kSimpleKeyBytesMax) {
        out_.append("? ").append(scalar).append("\n");
        Indent(indent);
      } else {
        out_ += scalar;
      }
      out_ += ':';
      AfterKey(value, indent);
    }
  }

  void AfterKey(const YamlValue& value, size_t indent) {
    const size_t line = out_.size() - (out_.rfind('\n') + 1);  // npos + 1 is 0
    const size_t columns = kColumnsMax > line + 1 ? kColumnsMax - line - 1 : 0;
    // What the key has left of the line. A key may leave nothing; then only blocks are tried.
    if (const std::optional<std::string> flow = Flow(value, columns)) {
      out_.append(" ").append(*flow).append("\n");
      return;
    }
    switch (value.kind) {
      // Too long for the line, and a scalar cannot be broken: it stands there all the same.
      case YamlValue::Kind::kToken:
        out_.append(" ").append(value.text).append("\n");
        break;
      case YamlValue::Kind::kText:
        Text(value.text, indent);
        break;
      case YamlValue::Kind::kList:
        out_ += value.items.empty() ? " []\n" : "\n";
        List(value, indent + kIndent);
        break;
      case YamlValue::Kind::kMap:
        out_ += value.entries.empty() ? " {}\n" : "\n";
        Map(value, indent + kIndent, false);
        break;
    }
  }

  void Text(std::string_view text, size_t indent) {
    if (!FitsLiteral(text)) {
      out_.append(" ").append(YamlScalar(text)).append("\n");
      return;
    }
    out_ += text.ends_with('\n') ? " |\n" : " |-\n";
    if (text.ends_with('\n')) text.remove_suffix(1);
    while (true) {
      const size_t end = std::min(text.find('\n'), text.size());
      // An empty line stays empty: blanks at the end of a line would be lost in an editor.
      if (end > 0) Indent(indent + kIndent);
      out_.append(text.substr(0, end)).append("\n");
      if (end == text.size()) return;
      text.remove_prefix(end + 1);
    }
  }

  void List(const YamlValue& list, size_t indent) {
    for (const YamlValue& item : list.items) {
      Indent(indent);
      out_ += "- ";
      const std::optional<std::string> flow = Flow(item, kColumnsMax - indent - 2);
      if (flow) {
        out_.append(*flow).append("\n");
      } else if (item.kind == YamlValue::Kind::kMap && !item.entries.empty()) {
        Map(item, indent + kIndent, true);
      } else {
        // No list of a contract holds lists, so a scalar is left that has no one-line form within
        // the width. It gets one beyond it.
        KCC_CHECK(item.kind == YamlValue::Kind::kText || item.kind == YamlValue::Kind::kToken);
        out_.append(item.kind == YamlValue::Kind::kText ? YamlScalar(item.text) : item.text)
            .append("\n");
      }
    }
  }

  std::string out_;
};

}  // namespace

std::string YamlScalar(std::string_view text) {
  return IsPlain(text) ? std::string(text) : YamlQuoted(text);
}

std::string YamlQuoted(std::string_view text) {
  const bool quotes = text.find_first_of("\"\\") != text.npos;
  if (quotes && text.find('\'') == text.npos && !HasHidden(text)) {
    return "'" + std::string(text) + "'";
  }
  return DoubleQuoted(text);
}

YamlValue YamlValue::Token(std::string_view token) {
  YamlValue value;
  value.text = token;
  return value;
}

YamlValue YamlValue::Text(std::string_view text) {
  YamlValue value;
  value.kind = Kind::kText;
  value.text = text;
  return value;
}

YamlValue YamlValue::List(bool block) {
  YamlValue value;
  value.kind = Kind::kList;
  value.block = block;
  return value;
}

YamlValue YamlValue::Map(bool block) {
  YamlValue value;
  value.kind = Kind::kMap;
  value.block = block;
  return value;
}

YamlValue& YamlValue::Add(std::string key, YamlValue value) {
  KCC_CHECK(kind == Kind::kMap);
  entries.push_back({std::move(key), std::move(value)});
  return *this;
}

YamlValue& YamlValue::Add(YamlValue item) {
  KCC_CHECK(kind == Kind::kList);
  items.push_back(std::move(item));
  return *this;
}

std::string WriteYaml(const YamlValue& map) { return Writer().Run(map); }

}  // namespace kcc
