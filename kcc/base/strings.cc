#include "kcc/base/strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace kcc {
namespace {

// Optimal string alignment distance, abandoned once it must exceed `limit`.
size_t EditDistance(std::string_view a, std::string_view b, size_t limit) {
  const size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (gap > limit) return limit + 1;
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    if (*std::min_element(row.begin(), row.end()) > limit) return limit + 1;
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string ShortestNumber(double value) {
  constexpr double kExactIntegers = 9007199254740992.0;
  std::array<char, 64> buffer{};
  const bool integer = std::fabs(value) <= kExactIntegers && std::nearbyint(value) == value;
  if (value == 0) return "0";           // -0 and 0 are one number to a reader
  if (std::isnan(value)) return "nan";  // its sign says nothing and differs between compilers
  const auto end = integer ? std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                           static_cast<int64_t>(value))
                           : std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), end.ptr);
}

std::string ReadableNumber(double value) {
  constexpr double kSignificant = 1e4;
  if (std::nearbyint(value) == value && std::fabs(value) < 1e9) return ShortestNumber(value);
  if (!std::isfinite(value)) return ShortestNumber(value);
  std::array<char, 64> buffer{};
  const double magnitude = std::fabs(value);
  const bool plain = magnitude >= 1e-4 && magnitude < kSignificant;
  const auto format = plain ? std::chars_format::general : std::chars_format::scientific;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, plain ? 4 : 3);
  // Reading it back drops trailing zeros of the mantissa: "1.200e-13" is 1.2e-13.
  const std::string_view rounded(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  return ShortestNumber(*ParseNumber(rounded));
}

std::optional<double> ParseNumber(std::string_view text) {
  const bool has_sign = text.starts_with('+') || text.starts_with('-');
  const std::string_view digits = text.substr(has_sign ? 1 : 0);
  if (digits.empty() || !(digits[0] == '.' || (digits[0] >= '0' && digits[0] <= '9'))) return {};
  if (text[0] == '+') text = digits;  // from_chars takes no plus sign
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<std::string_view> NearestWord(std::string_view word,
                                            std::span<const std::string_view> candidates) {
  constexpr size_t kLongestWord = 64;
  if (word.empty() || word.size() > kLongestWord) return {};
  // Another case is no distance at all: TRL for trl.
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (const std::string_view candidate : candidates) {
    const bool alike = std::equal(word.begin(), word.end(), candidate.begin(), candidate.end(),
                                  [&](char a, char b) { return lower(a) == lower(b); });
    if (alike && word != candidate) return candidate;
  }
  std::optional<std::string_view> best;
  size_t best_distance = 0;
  for (const std::string_view candidate : candidates) {
    size_t limit = std::max<size_t>(1, std::max(word.size(), candidate.size()) / 3);
    if (best) limit = std::min(limit, best_distance - 1);
    const size_t distance = EditDistance(word, candidate, limit);
    if (distance == 0 || distance > limit) continue;
    best = candidate;
    best_distance = distance;
    if (distance == 1) break;
  }
  return best;
}

std::string JoinWords(std::span<const std::string_view> words, std::string_view last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0 && i + 1 == words.size()) {
      text.append(" ").append(last).append(" ");
    } else if (i > 0) {
      text += ", ";
    }
    text += words[i];
  }
  return text;
}

bool IsUtf8(std::string_view bytes, size_t* bad_offset) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  size_t i = 0;
  while (i < bytes.size()) {
    const unsigned char lead = at(i);
    size_t length = 1;
    uint32_t point = lead;
    uint32_t smallest = 0;
    if (lead >= 0x80) {
      if ((lead & 0xE0) == 0xC0) {
        length = 2, point = lead & 0x1F, smallest = 0x80;
      } else if ((lead & 0xF0) == 0xE0) {
        length = 3, point = lead & 0x0F, smallest = 0x800;
      } else if ((lead & 0xF8) == 0xF0) {
        length = 4, point = lead & 0x07, smallest = 0x10000;
      } else {
        *bad_offset = i;
        return false;
      }
    }
    bool good = i + length <= bytes.size();
    for (size_t k = 1; good && k < length; ++k) {
      good = (at(i + k) & 0xC0) == 0x80;
      point = (point << 6) | (at(i + k) & 0x3F);
    }
    // Overlong forms, surrogates and points past the last plane are not UTF-8.
    if (!good || point < smallest || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) {
      *bad_offset = i;
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace kcc
