#include "kcc/report/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Calls visit(code point, its bytes); a byte that is no UTF-8 is visited as U+FFFD.
template <class Visit>
void ForEachCodePoint(std::string_view text, Visit visit) {
  size_t bad = text.size();
  if (IsUtf8(text, &bad)) bad = text.size();
  for (size_t i = 0; i < text.size();) {
    if (i == bad) {
      visit(char32_t{0xFFFD}, kReplacement);
      ++i;
      size_t next = 0;
      bad = IsUtf8(text.substr(i), &next) ? text.size() : i + next;
      continue;
    }
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    auto code = static_cast<char32_t>(length == 1 ? lead : lead & (0x7F >> length));
    for (size_t k = 1; k < length; ++k) {
      code = (code << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3Fu);
    }
    visit(code, text.substr(i, length));
    i += length;
  }
}

bool IsControl(char32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

// Embeddings, overrides and isolates of bidirectional text, and the line separators.
bool Reorders(char32_t c) {
  return (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x200E || c == 0x200F;
}

size_t CodePointWidth(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  constexpr std::array kCombining = {Range{0x300, 0x36F},   Range{0x1AB0, 0x1AFF},
                                     Range{0x200B, 0x200F}, Range{0x20D0, 0x20FF},
                                     Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F}};
  constexpr std::array kWide = {Range{0x1100, 0x115F},   Range{0x2E80, 0xA4CF},
                                Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},
                                Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},
                                Range{0xFFE0, 0xFFE6},   Range{0x1F300, 0x1F64F},
                                Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD}};
  const auto holds = [c](const Range& range) { return c >= range.first && c <= range.last; };
  if (std::any_of(kCombining.begin(), kCombining.end(), holds)) return 0;
  return std::any_of(kWide.begin(), kWide.end(), holds) ? 2 : 1;
}

std::string SignificantDigits(double value, int digits) {
  if (!std::isfinite(value)) return ShortestNumber(value);
  if (value == 0) return "0";
  std::array<char, 64> buffer{};
  // Through the decimal of `digits` digits and back, so that the shortest form drops its zeros.
  auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                           std::chars_format::scientific, digits - 1);
  double rounded = value;
  std::from_chars(buffer.data(), end.ptr, rounded);
  return ShortestNumber(rounded);
}

}  // namespace

std::string ShortNumber(double value) {
  const bool large = std::abs(value) >= 1000 && std::abs(value) < 1e15;
  return large ? ShortestNumber(std::round(value)) : SignificantDigits(value, 4);
}

std::string PassingNumber(BoundKind bound, double value) {
  const auto passes = [&](const std::string& text) {
    const auto rounded = ParseNumber(text);
    return rounded && (bound == BoundKind::kAtMost ? *rounded >= value : *rounded <= value);
  };
  if (std::string text = SignificantDigits(value, 4); passes(text)) return text;
  // The rounding went the wrong way: one unit of the fourth digit in the right one.
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 3);
  const double step = bound == BoundKind::kAtMost ? unit : -unit;
  const std::string text = SignificantDigits(value + step, 4);
  return passes(text) ? text : ShortestNumber(value);
}

std::string Grouped(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

std::string Percent(double share) { return SignificantDigits(share * 100, 3) + "%"; }

std::string IntervalText(const Interval& interval) {
  if (!interval.known()) return "not measured";
  if (interval.exact()) return ShortNumber(interval.lo);
  return "[" + ShortNumber(interval.lo) + ", " + ShortNumber(interval.hi) + "]";
}

std::string BoundText(BoundKind bound, double threshold) {
  return (bound == BoundKind::kAtMost ? "≤ " : "≥ ") + ShortestNumber(threshold);
}

std::string ExceedanceText(const ExceedanceCount& exceedance) {
  if (exceedance.windows == 0) return "no window (budget " + Percent(exceedance.budget) + ")";
  return Percent(exceedance.rate()) + " of " + Grouped(exceedance.windows) +
         " windows beyond (budget " + Percent(exceedance.budget) + ")";
}

std::string CountText(const SampleCount& count) {
  std::string text = Grouped(count.requests) + (count.requests == 1 ? " request" : " requests");
  if (count.tokens > 0) {
    text += ", " + Grouped(count.tokens) + (count.tokens == 1 ? " token" : " tokens");
  }
  return text;
}

std::string OneLine(std::string_view text) {
  std::string out;
  ForEachCodePoint(text, [&](char32_t c, std::string_view bytes) {
    if (IsControl(c) || Reorders(c)) {
      out += ' ';
    } else {
      out += bytes;
    }
  });
  return out;
}

size_t DisplayWidth(std::string_view utf8) {
  size_t width = 0;
  ForEachCodePoint(utf8, [&](char32_t c, std::string_view) { width += CodePointWidth(c); });
  return width;
}

std::string Truncated(std::string_view utf8, size_t width) {
  if (DisplayWidth(utf8) <= width) return std::string(utf8);
  std::string out;
  size_t used = 0;
  bool full = width == 0;
  ForEachCodePoint(utf8, [&](char32_t c, std::string_view bytes) {
    full = full || used + CodePointWidth(c) + 1 > width;
    if (full) return;
    used += CodePointWidth(c);
    out += bytes;
  });
  return width == 0 ? out : out + "…";
}

std::string MarkupEscaped(std::string_view text) {
  std::string out;
  ForEachCodePoint(text, [&](char32_t c, std::string_view bytes) {
    const bool forbidden = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') ||
                           (c >= 0x7F && c < 0xA0) || c == 0xFFFE || c == 0xFFFF;
    if (forbidden) return;
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += bytes;
    }
  });
  return out;
}

std::string WithoutBlanks(std::string_view text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out),
               [](char c) { return c != ' ' && c != '\n' && c != '\r' && c != '\t'; });
  return out;
}

}  // namespace kcc
