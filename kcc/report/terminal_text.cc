#include "kcc/report/terminal_text.h"

#include <algorithm>
#include <array>

#include "kcc/report/text.h"

namespace kcc {
namespace {

constexpr size_t kWidthMin = 40;
constexpr std::string_view kReset = "\x1b[0m";

}  // namespace

TerminalText::TerminalText(int width, bool color)
    : width_(std::max(kWidthMin, static_cast<size_t>(std::max(width, 0)))), color_(color) {}

TerminalText& TerminalText::Paragraph(std::string_view raw, size_t indent) {
  const std::string text = OneLine(raw);
  const size_t room = width_ > indent + 20 ? width_ - indent : 20;
  std::string line;
  const auto flush = [&] {
    if (line.empty()) return;
    text_.append(indent, ' ').append(line).append("\n");
    line.clear();
  };
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t blank = std::min(rest.find(' '), rest.size());
    std::string_view word = rest.substr(0, blank);
    rest.remove_prefix(std::min(blank + 1, rest.size()));
    if (word.empty()) continue;
    const size_t used = DisplayWidth(line);
    if (used > 0 && used + 1 + DisplayWidth(word) > room) flush();
    while (DisplayWidth(word) > room) {
      // Truncated() ends in an ellipsis of three bytes and one column; what is before it fits.
      const size_t bytes = Truncated(word, room + 1).size() - std::string_view("…").size();
      line = word.substr(0, bytes);
      word.remove_prefix(bytes);
      flush();
    }
    if (word.empty()) continue;
    if (!line.empty()) line += ' ';
    line += word;
  }
  flush();
  return *this;
}

TerminalText& TerminalText::Line(std::string_view text) {
  text_ += text;
  text_ += '\n';
  return *this;
}

std::string TerminalText::Painted(std::string_view code, std::string_view text) const {
  if (!color_) return std::string(text);
  return std::string("\x1b[").append(code).append("m").append(text).append(kReset);
}

std::string TerminalText::Bold(std::string_view text) const { return Painted("1", text); }
std::string TerminalText::Dim(std::string_view text) const { return Painted("2", text); }

std::string TerminalText::Colored(Verdict verdict, std::string_view text) const {
  constexpr std::array<std::string_view, 4> kCodes = {"32", "33", "35", "1;31"};
  return Painted(kCodes[static_cast<size_t>(verdict)], text);
}

std::string_view Glyph(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kGlyphs = {"✓", "?", "!", "✗"};
  return kGlyphs[static_cast<size_t>(verdict)];
}

std::string Padded(std::string_view text, size_t columns) {
  std::string cut = Truncated(text, columns);
  const size_t used = DisplayWidth(cut);
  if (used < columns) cut.append(columns - used, ' ');
  return cut;
}

}  // namespace kcc
