// Test only: text that YAML would like to read as something else.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <vector>

namespace kcc {

// Never empty.
inline rc::Gen<std::string> GenHostileText() {
  // Control characters are not among them: no contract can hold one.
  // clang-format off
  static const std::vector<std::string> kParts = {
      "NO", "on", "~", "null", "true", "1e3", "0x1f", "2024-01-01", "1_000", ".inf", "12:30",
      "word", "two words", "a: b", "key:", " #x", "#", "- a", "-", "'", "\"", "\\", "\n",
      "\n\n", "\t", "\r\n", "\xE2\x80\x8B", "\xC3\xBC", "\xF0\x9F\x98\x80", "{", "}", "[", "]",
      ",", "&a", "*b", "!t", "|", ">", "%", "@", "`", "?", ":", "---", "...", " ", "  ", "<<",
      "=", "sha256:abc", "digest"};
  // clang-format on
  return rc::gen::exec([] {
    const auto whole = [](int64_t low, int64_t high) {
      return *rc::gen::inRange<int64_t>(low, high + 1);
    };
    std::string text;
    for (int64_t i = whole(1, 5); i > 0; --i) {
      text += kParts[*rc::gen::inRange<size_t>(0, kParts.size())];
    }
    if (whole(0, 19) == 0) text.append(static_cast<size_t>(whole(50, 1500)), 'x');
    return text;
  });
}

}  // namespace kcc
