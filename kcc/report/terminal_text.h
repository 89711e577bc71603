// Columns, wrapping and colour for terminal output.
#pragma once

#include <string>
#include <string_view>

#include "kcc/judge/verdict.h"

namespace kcc {

class TerminalText {
 public:
  TerminalText(int width, bool color);

  // The text wrapped at blanks, every line indented by `indent` columns; a word longer than the
  // line is broken. Control characters are made harmless.
  TerminalText& Paragraph(std::string_view text, size_t indent);

  // One line as it is; `text` may hold what Bold, Dim and Colored made. The caller cuts it.
  TerminalText& Line(std::string_view text = "");

  std::string Bold(std::string_view text) const;
  std::string Dim(std::string_view text) const;
  std::string Colored(Verdict verdict, std::string_view text) const;

  size_t width() const { return width_; }
  std::string Take() { return std::move(text_); }

 private:
  std::string Painted(std::string_view code, std::string_view text) const;

  size_t width_;
  bool color_;
  std::string text_;
};

// "✓", "?", "!" and "✗".
std::string_view Glyph(Verdict verdict);

// The text and blanks to its right, `columns` in all; longer text is cut.
std::string Padded(std::string_view text, size_t columns);

}  // namespace kcc
