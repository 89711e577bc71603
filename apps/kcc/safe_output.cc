#include "apps/kcc/safe_output.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>

#include "kcc/base/strings.h"
#include "kcc/contract/text_check.h"

namespace kcc::cli {
namespace {

std::string Hex(uint32_t value, size_t digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(digits, '0');
  for (size_t i = 0; i < digits; ++i, value >>= 4) text[digits - 1 - i] = kDigits[value & 15];
  return text;
}

// A character as text. JSON has no escape for a byte that is not UTF-8, nor above 16 bits.
std::string Escape(uint32_t point, bool json) {
  if (!json && point < 0x100) return "\\x" + Hex(point, 2);
  if (point < 0x10000) return "\\u" + Hex(point, 4);
  if (!json) return "\\U" + Hex(point, 8);
  const uint32_t pair = point - 0x10000;
  return "\\u" + Hex(0xD800 + (pair >> 10), 4) + "\\u" + Hex(0xDC00 + (pair & 0x3FF), 4);
}

bool Plain(char c) { return c >= 0x20 && c < 0x7f; }

// What Paint and the report's terminal form write, and nothing a terminal could do more with.
constexpr std::array<std::string_view, 9> kColours = {"\x1b[0m",  "\x1b[1m",    "\x1b[2m",
                                                      "\x1b[32m", "\x1b[33m",   "\x1b[35m",
                                                      "\x1b[36m", "\x1b[1;31m", "\x1b[1;33m"};

// The colour that `text` begins with; `part` is set where it may still become one.
size_t ColourAt(std::string_view text, bool* part) {
  for (const std::string_view colour : kColours) {
    if (text.starts_with(colour)) return colour.size();
    if (colour.starts_with(text)) *part = true;
  }
  return 0;
}

bool CommandAt(std::string_view text, bool at_line_start, bool* part) {
  for (const std::string_view command : {"::", "##[", "##vso["}) {
    if (command == "::" && !at_line_start) continue;
    if (text.starts_with(command)) return true;
    if (command.starts_with(text)) *part = true;
  }
  return false;
}

// Bytes of the character that a lead byte begins; 1 for what begins none.
size_t LengthOf(unsigned char lead) {
  return lead < 0xC2 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 1;
}

uint32_t PointOf(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  uint32_t point = character.size() == 1 ? lead : lead & (0x7Fu >> character.size());
  for (const char c : character.substr(1)) {
    point = (point << 6) | (static_cast<unsigned char>(c) & 0x3Fu);
  }
  return point;
}

// True if `rest`, shorter than its lead byte promises, can still become a character.
bool MayGrow(std::string_view rest) {
  return std::all_of(rest.begin() + 1, rest.end(),
                     [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; });
}

struct Rules {
  bool json = false;
  bool colour = false;
  bool one_line = false;  // line feeds and tabs are escaped as well
  bool commands = true;   // those to a CI runner are escaped
  bool last = false;      // nothing follows: nothing is held back
};

// Appends what `text` may be shown as and gives how many of its bytes are done; the rest waits for
// more to come.
size_t AppendSafe(std::string_view text, const Rules& rules, bool* at_line_start,
                  std::string* out) {
  size_t i = 0;
  while (i < text.size()) {
    const char c = text[i];
    const std::string_view rest = text.substr(i);
    bool part = false;
    if (rules.commands && (c == '#' || c == ':')) {
      const bool command = CommandAt(rest, *at_line_start, &part);
      if (!command && part && !rules.last) return i;
      *out += command ? Escape(static_cast<unsigned char>(c), rules.json) : std::string(1, c);
      *at_line_start = false;
      ++i;
    } else if (Plain(c) || (!rules.one_line && (c == '\n' || c == '\t'))) {
      *out += c;
      *at_line_start = c == '\n' || (*at_line_start && (c == ' ' || c == '\t'));
      ++i;
    } else if (c == '\x1b' && rules.colour) {
      const size_t size = ColourAt(rest, &part);
      if (size == 0 && part && !rules.last) return i;
      *out += size > 0 ? std::string(rest.substr(0, size)) : Escape(0x1b, rules.json);
      i += std::max<size_t>(size, 1);
    } else {
      const size_t length = LengthOf(static_cast<unsigned char>(c));
      if (rest.size() < length && MayGrow(rest) && !rules.last) return i;
      const std::string_view character = rest.substr(0, length);
      size_t bad = 0;
      *at_line_start = false;
      if (!IsUtf8(character, &bad)) {
        *out += rules.json ? "\\ufffd" : Escape(static_cast<unsigned char>(c), false);
        ++i;
        continue;
      }
      const uint32_t point = PointOf(character);
      *out += point < 0x80 || IsForbiddenPoint(point) ? Escape(point, rules.json)
                                                      : std::string(character);
      i += length;
    }
  }
  return i;
}

}  // namespace

bool SafeOutput::Put(std::string_view text, bool last) noexcept {
  try {
    return PutSafe(text, last);
  } catch (const std::bad_alloc&) {
    out_of_memory_ = true;
    return false;
  }
}

bool SafeOutput::PutSafe(std::string_view text, bool last) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_ + std::string(text);
    text = joined;
  }
  std::string safe;
  const Rules rules{.json = json_ != nullptr && *json_,
                    .colour = colour_,
                    .commands = contract_ == nullptr || !*contract_,
                    .last = last};
  const size_t done = AppendSafe(text, rules, &at_line_start_, &safe);
  held_ = std::string(text.substr(done));
  const auto size = static_cast<std::streamsize>(safe.size());
  return target_.sputn(safe.data(), size) == size;
}

bool SafeOutput::Finish() { return Put("", true); }

SafeOutput::int_type SafeOutput::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char byte = traits_type::to_char_type(c);
  return Put({&byte, 1}, false) ? c : traits_type::eof();
}

std::streamsize SafeOutput::xsputn(const char* bytes, std::streamsize count) {
  // In pieces, so that a large report does not stand in memory once more.
  constexpr std::streamsize kPiece = std::streamsize{1} << 16;
  for (std::streamsize done = 0; done < count;) {
    const std::streamsize size = std::min(kPiece, count - done);
    if (!Put({bytes + done, static_cast<size_t>(size)}, false)) return done;
    done += size;
  }
  return count;
}

std::string Shown(std::string_view text) {
  std::string shown;
  bool at_line_start = false;
  AppendSafe(text, {.one_line = true, .commands = false, .last = true}, &at_line_start, &shown);
  return shown;
}

}  // namespace kcc::cli
