// Diagnostics for people (the line, a caret, a hint) and as JSON.
//
// The line is shown as a terminal can show it: tabs as four blanks, wide characters counted as two
// columns, what cannot be shown as U+FFFD, and of a long line only the part around the caret.
#include "kcc/contract/diagnostic.h"

#include <algorithm>

#include "kcc/base/strings.h"
#include "kcc/contract/source_text.h"

namespace kcc {
namespace {

constexpr size_t kTabWidth = 4;
// Shown before and after the caret's start, where the line is longer than both.
constexpr size_t kContextPoints = 60;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kEllipsis = "...";

struct Glyph {
  std::string_view bytes;
  size_t width = 1;
};

size_t WidthOf(uint32_t point) {
  if (point >= 0x300 && point <= 0x36F) return 0;
  const bool wide = (point >= 0x1100 && point <= 0x115F) || (point >= 0x2E80 && point <= 0xA4CF) ||
                    (point >= 0xAC00 && point <= 0xD7A3) || (point >= 0xF900 && point <= 0xFAFF) ||
                    (point >= 0xFE30 && point <= 0xFE6F) || (point >= 0xFF00 && point <= 0xFF60) ||
                    (point >= 0xFFE0 && point <= 0xFFE6) || (point >= 0x1F300 && point <= 0x1FAFF);
  return wide ? 2 : 1;
}

// The character at the start of `text`, and how many bytes of it were used.
Glyph NextGlyph(std::string_view text, size_t* used) {
  const auto lead = static_cast<uint8_t>(text[0]);
  size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  size_t bad = 0;
  if (length > text.size() || !IsUtf8(text.substr(0, length), &bad)) {
    *used = 1;
    return {kReplacement, 1};
  }
  *used = length;
  if (lead == '\t') return {"    ", kTabWidth};
  if (lead < 0x20 || lead == 0x7F) return {kReplacement, 1};
  uint32_t point = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) point = point << 6 | (static_cast<uint8_t>(text[i]) & 63u);
  if (point < 0xA0 && point >= 0x80) return {kReplacement, 1};
  const bool hides = (point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069) ||
                     point == 0xFEFF;
  if (hides) return {kReplacement, 1};
  return {text.substr(0, length), WidthOf(point)};
}

// Finds the line without an index: a few hundred calls at most.
std::string_view LineOf(std::string_view text, int line) {
  for (int i = 1; i < line; ++i) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

struct Excerpt {
  std::string line;
  std::string underline;
};

Excerpt ExcerptOf(std::string_view line, size_t column, size_t length) {
  const bool whole = CodePoints(line) <= 2 * kContextPoints;
  const size_t first = whole || column <= kContextPoints ? 1 : column - kContextPoints;
  const size_t last = whole ? 2 * kContextPoints : column + kContextPoints;
  Excerpt excerpt;
  if (first > 1) {
    excerpt.line = kEllipsis;
    excerpt.underline.assign(kEllipsis.size(), ' ');
  }
  size_t used = 0;
  size_t at = 1;
  for (; !line.empty() && at <= last; line.remove_prefix(used), ++at) {
    const Glyph glyph = NextGlyph(line, &used);
    if (at < first) continue;
    excerpt.line += glyph.bytes;
    if (at < column) excerpt.underline.append(glyph.width, ' ');
    if (at == column) excerpt.underline += '^';
    const size_t tail = at == column ? std::max<size_t>(glyph.width, 1) - 1 : glyph.width;
    if (at >= column && at < column + length) excerpt.underline.append(tail, '~');
  }
  if (at <= column) excerpt.underline += '^';  // past the end of the line
  if (!line.empty()) excerpt.line += kEllipsis;
  return excerpt;
}

std::string_view Name(DiagnosticKind kind) {
  return kind == DiagnosticKind::kError ? "error" : "warning";
}

}  // namespace

std::string FormatDiagnostic(const Diagnostic& diagnostic, std::string_view file,
                             std::string_view source) {
  const bool placed = diagnostic.mark.line > 0;
  std::string text(file);
  if (placed) {
    text +=
        ":" + std::to_string(diagnostic.mark.line) + ":" + std::to_string(diagnostic.mark.column);
  }
  text += ": ";
  text.append(Name(diagnostic.kind)).append(": ").append(diagnostic.message);
  text += " [" + diagnostic.code + "]\n";
  if (!placed) {
    if (!diagnostic.hint.empty()) text += "  " + diagnostic.hint + "\n";
    return text;
  }
  const Excerpt excerpt = ExcerptOf(LineOf(SkipByteOrderMark(source), diagnostic.mark.line),
                                    static_cast<size_t>(std::max(1, diagnostic.mark.column)),
                                    static_cast<size_t>(std::max(1, diagnostic.length)));
  text += "  " + excerpt.line + "\n  " + excerpt.underline;
  if (!diagnostic.hint.empty()) text += " " + diagnostic.hint;
  return text + "\n";
}

void WriteDiagnostics(const std::vector<Diagnostic>& diagnostics, std::string_view file,
                      JsonWriter* json) {
  json->BeginArray();
  for (const Diagnostic& diagnostic : diagnostics) {
    json->BeginObject();
    json->Field("file", file);
    json->Field("line", diagnostic.mark.line);
    json->Field("column", diagnostic.mark.column);
    json->Field("length", diagnostic.length);
    json->Field("kind", Name(diagnostic.kind));
    json->Field("code", diagnostic.code);
    json->Field("message", diagnostic.message);
    json->Field("hint", diagnostic.hint);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace kcc
