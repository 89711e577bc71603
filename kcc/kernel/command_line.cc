#include "kcc/kernel/command_line.h"

namespace kcc {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// Appends what stands between quotes; `at` is the opening one, and becomes the closing one.
Result<> AppendQuoted(std::string_view text, size_t* at, std::string* word) {
  const char quote = text[*at];
  for (size_t i = *at + 1; i < text.size(); ++i) {
    if (text[i] == quote) {
      *at = i;
      return {};
    }
    const bool escapes = quote == '"' && text[i] == '\\' && i + 1 < text.size() &&
                         (text[i + 1] == '"' || text[i + 1] == '\\');
    if (escapes) ++i;
    *word += text[i];
  }
  return InvalidError(std::string("a quote ") + quote + " is not closed in the command '" +
                      std::string(text) + "'");
}

}  // namespace

Result<std::vector<std::string>> SplitCommand(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;  // '' is a word too
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsBlank(text[i])) {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
      continue;
    }
    open = true;
    if (text[i] == '\'' || text[i] == '"') {
      KCC_TRY_VOID(AppendQuoted(text, &i, &word));
    } else if (text[i] == '\\' && i + 1 < text.size()) {
      word += text[++i];
    } else {
      word += text[i];
    }
  }
  if (open) words.push_back(std::move(word));
  if (words.empty() || words[0].empty()) return InvalidError("the command names no program");
  return words;
}

}  // namespace kcc
