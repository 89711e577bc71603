#include "apps/kcc/times.h"

#include <charconv>
#include <chrono>
#include <cstdio>

namespace kcc::cli {
namespace {

constexpr int64_t kDayMs = 86'400'000;

Error BadTime(std::string_view text) {
  return InvalidError("'" + std::string(text) +
                      "' is not a time; use 2026-11-18T08:30:00Z, 2026-11-18 or milliseconds");
}

// Exactly `digits` digits at the beginning of the text, which loses them.
bool TakeNumber(std::string_view* text, size_t digits, int64_t* number) {
  if (text->size() < digits) return false;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + digits, *number);
  if (failed != std::errc() || end != text->data() + digits || (*text)[0] == '-') return false;
  text->remove_prefix(digits);
  return true;
}

bool Take(std::string_view* text, char c) {
  if (text->empty() || (*text)[0] != c) return false;
  text->remove_prefix(1);
  return true;
}

}  // namespace

std::string TimeText(int64_t time_ms) {
  const int64_t in_day = ((time_ms % kDayMs) + kDayMs) % kDayMs;
  const std::chrono::year_month_day day(
      std::chrono::sys_days(std::chrono::days((time_ms - in_day) / kDayMs)));
  char text[64];
  const int length =
      std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d",
                    static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                    static_cast<unsigned>(day.day()), static_cast<int>(in_day / 3'600'000),
                    static_cast<int>(in_day / 60'000 % 60), static_cast<int>(in_day / 1000 % 60));
  std::string shown(text, static_cast<size_t>(length));
  if (in_day % 1000 != 0) {
    std::snprintf(text, sizeof text, ".%03d", static_cast<int>(in_day % 1000));
    shown += text;
  }
  return shown + "Z";
}

Result<int64_t> ParseTime(std::string_view text) {
  int64_t plain = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), plain);
  if (failed == std::errc() && end == text.data() + text.size()) return plain;
  std::string_view rest = text;
  int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, fraction = 0;
  if (!TakeNumber(&rest, 4, &year) || !Take(&rest, '-') || !TakeNumber(&rest, 2, &month) ||
      !Take(&rest, '-') || !TakeNumber(&rest, 2, &day)) {
    return BadTime(text);
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return BadTime(text);
  if (!rest.empty()) {
    if (!Take(&rest, 'T') || !TakeNumber(&rest, 2, &hour) || !Take(&rest, ':') ||
        !TakeNumber(&rest, 2, &minute) || !Take(&rest, ':') || !TakeNumber(&rest, 2, &second)) {
      return BadTime(text);
    }
    if (Take(&rest, '.') && !TakeNumber(&rest, 3, &fraction)) return BadTime(text);
    if (!Take(&rest, 'Z') || !rest.empty() || hour > 23 || minute > 59 || second > 59) {
      return BadTime(text);
    }
  }
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return days * kDayMs + ((hour * 60 + minute) * 60 + second) * 1000 + fraction;
}

}  // namespace kcc::cli
