#include "kcc/experiment/experiment_text.h"

#include <algorithm>

#include "kcc/report/terminal_text.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

constexpr int kTextColumns = 100;

}  // namespace

std::string TextTable(std::span<const std::string> head,
                      std::span<const std::vector<std::string>> rows) {
  std::vector<size_t> widths;
  for (const std::string& cell : head) widths.push_back(DisplayWidth(cell));
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  const auto line = [&](std::span<const std::string> cells) {
    std::string text = " ";
    for (size_t i = 0; i < cells.size(); ++i) {
      text += " " + (i + 1 < cells.size() ? Padded(cells[i], widths[i] + 1) : cells[i]);
    }
    return text + "\n";
  };
  std::string table = line(head);
  for (const std::vector<std::string>& row : rows) table += line(row);
  return table;
}

std::string TextParagraph(std::string_view text, size_t indent) {
  return TerminalText(kTextColumns, false).Paragraph(text, indent).Take();
}

std::string FindingsText(std::span<const Finding> findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += TextParagraph(std::string(FindingWord(finding)) + ": " + finding.predicted, 2) +
            TextParagraph(finding.seen, 4);
  }
  return text;
}

}  // namespace kcc
