#include "kcc/contract/text_check.h"

#include <array>
#include <string>

#include "kcc/base/strings.h"
#include "kcc/contract/reader.h"
#include "kcc/contract/source_text.h"

namespace kcc {
namespace {

std::string Hex(uint32_t value, size_t digits) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text(digits, '0');
  for (size_t i = 0; i < digits; ++i, value >>= 4) text[digits - 1 - i] = kDigits[value & 15];
  return text;
}

Diagnostic At(std::string_view text, size_t offset, std::string code, std::string message,
              std::string hint) {
  // Only the lines before the problem are counted, so that broken bytes after it do no harm.
  const std::string_view before = text.substr(0, offset);
  return {DiagnosticKind::kError,
          std::move(code),
          std::move(message),
          std::move(hint),
          SourceText(before).MarkAt(before.size()),
          1};
}

// The forbidden character at `i`, or 0. The text is UTF-8.
uint32_t ForbiddenAt(std::string_view text, size_t i) {
  const auto at = [&](size_t k) { return static_cast<uint32_t>(static_cast<uint8_t>(text[k])); };
  const uint32_t lead = at(i);
  uint32_t point = 0;
  if (lead == 0xC2) {
    point = at(i + 1);
  } else if (lead == 0xE2 || lead == 0xEF) {
    point = (lead & 15) << 12 | (at(i + 1) & 63) << 6 | (at(i + 2) & 63);
  }
  return IsForbiddenPoint(point) ? point : 0;
}

}  // namespace

bool IsForbiddenPoint(uint32_t point) {
  return (point >= 0x80 && point <= 0x9F) || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069) || point == 0xFEFF || point == 0xFFFE ||
         point == 0xFFFF;
}

std::optional<Diagnostic> CheckText(std::string_view text) {
  if (text.size() > kContractBytesMax) {
    return Diagnostic{DiagnosticKind::kError,
                      "too-large",
                      "the document has " + std::to_string(text.size()) + " bytes, more than the " +
                          std::to_string(kContractBytesMax) + " that a contract may have",
                      "split the contract",
                      {},
                      1};
  }
  text = SkipByteOrderMark(text);
  size_t bad = 0;
  if (!IsUtf8(text, &bad)) {
    const auto byte = static_cast<uint8_t>(text[bad]);
    return At(text, bad, "not-utf8", "byte 0x" + Hex(byte, 2) + " is not UTF-8 here",
              "save the file as UTF-8");
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte >= 0x20 && byte < 0x7F) continue;
    if (byte == '\n' || byte == '\t') continue;
    if (byte == '\r') {
      if (i + 1 < text.size() && text[i + 1] == '\n') continue;
      return At(text, i, "control-character", "a carriage return without a line feed",
                "end lines with LF or CR LF");
    }
    const uint32_t point = byte < 0x80 ? byte : ForbiddenAt(text, i);
    if (byte < 0x80 || point != 0) {
      return At(text, i, "control-character",
                "control or invisible character U+" + Hex(point, 4) + " in the text", "remove it");
    }
  }
  return {};
}

}  // namespace kcc
