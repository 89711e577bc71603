#include "apps/kcc/markdown.h"

namespace kcc::cli {
namespace {

void AppendRow(const std::vector<std::string>& cells, std::string* out) {
  *out += '|';
  for (const std::string& cell : cells) {
    *out += ' ';
    for (const char c : cell) {
      if (c == '|') *out += '\\';
      *out += c;
    }
    *out += " |";
  }
  *out += '\n';
}

}  // namespace

std::string MarkdownTable(const std::vector<std::string>& head,
                          const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  AppendRow(head, &out);
  AppendRow(std::vector<std::string>(head.size(), "---"), &out);
  for (const auto& row : rows) AppendRow(row, &out);
  return out;
}

std::string MarkdownCode(std::string_view text) {
  return text.empty() ? std::string() : std::string("`").append(text).append("`");
}

}  // namespace kcc::cli
