#include "kcc/gateway/json_scan.h"

#include <algorithm>
#include <bit>
#include <bitset>
#include <charconv>
#include <cstring>

namespace kcc {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Of eight bytes, the high bit of the first that a string may not hold as it is: a quote, a
// backslash, a control character or part of a longer character. Bits above it say nothing; 0: all
// are plain.
uint64_t SpecialBytes(uint64_t bytes) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  constexpr uint64_t kHigh = 0x8080808080808080u;
  const auto has_zero = [](uint64_t x) { return (x - kOnes) & ~x & kHigh; };
  const uint64_t control = (bytes - kOnes * 0x20) & ~bytes & kHigh;
  return (bytes & kHigh) | control | has_zero(bytes ^ (kOnes * '"')) |
         has_zero(bytes ^ (kOnes * '\\'));
}

void AppendUtf8(uint32_t point, std::string* text) {
  const auto put = [&](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | (point >> 6)), put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | (point >> 12)), put(0x80 | ((point >> 6) & 0x3F)), put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | (point >> 18)), put(0x80 | ((point >> 12) & 0x3F));
    put(0x80 | ((point >> 6) & 0x3F)), put(0x80 | (point & 0x3F));
  }
}

// The four digits of an escape at `at`; nothing where they are not there.
std::optional<uint32_t> FourDigits(std::string_view text, size_t at) {
  if (text.size() < at + 4) return std::nullopt;
  uint32_t point = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const int digit = HexDigit(text[i]);
    if (digit < 0) return std::nullopt;
    point = point * 16 + static_cast<uint32_t>(digit);
  }
  return point;
}

}  // namespace

// From its opening quote to behind its closing one.
bool JsonCursor::String() {
  if (!Take('"')) return false;
  for (;;) {
    uint64_t bytes;
    while (end_ - at_ >= 8) {
      std::memcpy(&bytes, at_, 8);
      if (const uint64_t special = SpecialBytes(bytes); special != 0) {
        if constexpr (std::endian::native == std::endian::little) {
          at_ += std::countr_zero(special) / 8;
        }
        break;
      }
      at_ += 8;
    }
    if (at_ == end_) return false;
    const auto c = static_cast<unsigned char>(*at_);
    if (c == '"') {
      ++at_;
      return true;
    }
    if (c < 0x20) return false;
    if (c == '\\') {
      if (!Escape()) return false;
    } else if (c >= 0x80) {
      if (!LongCharacter(c)) return false;
    } else {
      ++at_;
    }
  }
}

bool JsonCursor::Key(std::string_view* key) {
  Blanks();
  const char* const begin = at_;
  if (!String()) return false;
  *key = std::string_view(begin + 1, static_cast<size_t>(at_ - begin) - 2);
  Blanks();
  return Take(':');
}

bool JsonCursor::Escape() {
  ++at_;
  if (at_ == end_) return false;
  const char c = *at_++;
  if (c != 'u') return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
  for (int i = 0; i < 4; ++i, ++at_) {
    if (at_ == end_ || HexDigit(*at_) < 0) return false;
  }
  return true;
}

bool JsonCursor::LongCharacter(unsigned char lead) {
  const int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || end_ - at_ < length) return false;
  const auto byte = [&](int i) { return static_cast<unsigned char>(at_[i]); };
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return false;
  }
  // Overlong forms, surrogates and points past the last plane show in the second byte.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
    return false;
  }
  at_ += length;
  return true;
}

bool JsonCursor::Digits() {
  if (at_ == end_ || !IsDigit(*at_)) return false;
  while (at_ != end_ && IsDigit(*at_)) ++at_;
  return true;
}

bool JsonCursor::Number() {
  Take('-');
  if (Take('0')) {
    if (at_ != end_ && IsDigit(*at_)) return false;
  } else if (!Digits()) {
    return false;
  }
  if (Take('.') && !Digits()) return false;
  if (Take('e') || Take('E')) {
    if (!Take('+')) Take('-');
    return Digits();
  }
  return true;
}

bool JsonCursor::Word(std::string_view word) {
  if (static_cast<size_t>(end_ - at_) < word.size() ||
      std::memcmp(at_, word.data(), word.size()) != 0) {
    return false;
  }
  at_ += word.size();
  return true;
}

// Neither object nor array.
bool JsonCursor::Scalar() {
  switch (*at_) {
    case '"':
      return String();
    case 't':
      return Word("true");
    case 'f':
      return Word("false");
    case 'n':
      return Word("null");
    default:
      return Number();
  }
}

// A loop with a bit for each open bracket, so that no text can use the stack up.
bool JsonCursor::SkipNested() {
  std::bitset<kJsonDepthMax + 1> objects;
  size_t depth = depth_;
  std::string_view key;
  for (;;) {
    Blanks();
    if (at_ == end_) return false;
    if (*at_ == '{' || *at_ == '[') {
      if (depth == kJsonDepthMax) return false;
      const bool object = *at_++ == '{';
      objects[++depth] = object;
      Blanks();
      if (Take(object ? '}' : ']')) {
        --depth;
      } else {
        if (object && !Key(&key)) return false;
        continue;
      }
    } else if (!Scalar()) {
      return false;
    }
    for (;;) {  // after a value
      if (depth == depth_) return true;
      Blanks();
      if (Take(',')) {
        if (objects[depth] && !Key(&key)) return false;
        break;
      }
      if (!Take(objects[depth] ? '}' : ']')) return false;
      --depth;
    }
  }
}

bool IsWholeJson(std::string_view text) {
  JsonCursor cursor(text);
  return cursor.Skip() && cursor.Peek() == '\0' && cursor.at() == text.data() + text.size();
}

JsonParts::JsonParts(std::string_view value) : cursor_(value) {
  const char first = cursor_.Peek();
  object_ = first == '{';
  open_ = object_ || first == '[';
  if (open_) cursor_.Take(first);
  cursor_.depth_ = 1;
}

bool JsonParts::Next(JsonPart* part) {
  if (!open_) return false;
  open_ = false;  // until this part is found good
  cursor_.Blanks();
  const char* const here = cursor_.at();
  if (cursor_.Take(object_ ? '}' : ']')) {
    good_ = true;
    close_ = here;
    return false;
  }
  if (!first_ && !cursor_.Take(',')) return false;
  cursor_.Blanks();
  part->begin = cursor_.at();
  part->key = {};
  if (object_ && !cursor_.Key(&part->key)) return false;
  if (!cursor_.Skip(&part->value)) return false;
  first_ = false;
  open_ = true;
  return true;
}

bool EscapedKeyIs(std::string_view key, std::string_view name) {
  return key.find('\\') != std::string_view::npos && UnescapeJson(key) == name;
}

std::string UnescapeJson(std::string_view raw) {
  std::string text;
  text.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      text.push_back(raw[i]);
      continue;
    }
    const char c = raw[++i];
    constexpr std::string_view kFrom = "bfnrt";
    constexpr std::string_view kTo = "\b\f\n\r\t";
    if (const size_t simple = kFrom.find(c); simple != std::string_view::npos) {
      text.push_back(kTo[simple]);
    } else if (c != 'u') {
      text.push_back(c);
    } else {
      uint32_t point = FourDigits(raw, i + 1).value_or(0xFFFD);
      i += 4;
      if (point >= 0xD800 && point < 0xDC00 &&
          raw.substr(std::min(i + 1, raw.size()), 2) == "\\u") {
        const uint32_t low = FourDigits(raw, i + 3).value_or(0);
        if (low >= 0xDC00 && low < 0xE000) {
          point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
          i += 6;
        }
      }
      if (point >= 0xD800 && point < 0xE000) point = 0xFFFD;
      AppendUtf8(point, &text);
    }
  }
  return text;
}

std::optional<std::string> JsonTextOf(std::string_view value) {
  if (value.size() < 2 || value.front() != '"') return std::nullopt;
  return UnescapeJson(value.substr(1, value.size() - 2));
}

std::optional<double> JsonNumberOf(std::string_view value) {
  if (value.empty() || (!IsDigit(value.front()) && value.front() != '-')) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> JsonIntegerOf(std::string_view value) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  return number;
}

std::optional<std::string_view> JsonMemberOf(std::string_view object, std::string_view name) {
  JsonParts parts(object);
  if (!parts.object()) return std::nullopt;
  JsonPart part;
  while (parts.Next(&part)) {
    if (KeyIs(part.key, name)) return part.value;
  }
  return std::nullopt;
}

}  // namespace kcc
