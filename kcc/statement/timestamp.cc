#include "kcc/statement/timestamp.h"

#include <chrono>
#include <cstdio>

#include "kcc/base/check.h"

namespace kcc {
namespace {

// The decimal number of exactly these digits.
std::optional<int> TimestampDigits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return value;
}

}  // namespace

std::optional<int64_t> ParseTimestamp(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  constexpr size_t kFractionMax = 9;
  if (text.size() <= kForm.size() || text.back() != 'Z') return std::nullopt;
  for (size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] != '0' && text[i] != kForm[i]) return std::nullopt;
  }
  const auto year = TimestampDigits(text.substr(0, 4));
  const auto month = TimestampDigits(text.substr(5, 2));
  const auto day = TimestampDigits(text.substr(8, 2));
  const auto hour = TimestampDigits(text.substr(11, 2));
  const auto minute = TimestampDigits(text.substr(14, 2));
  const auto second = TimestampDigits(text.substr(17, 2));
  std::optional<int> ms = 0;
  if (text.size() > kForm.size() + 1) {
    const std::string_view fraction = text.substr(kForm.size() + 1, text.size() - kForm.size() - 2);
    if (text[kForm.size()] != '.' || fraction.empty() || fraction.size() > kFractionMax ||
        !TimestampDigits(fraction)) {
      return std::nullopt;
    }
    ms = TimestampDigits((std::string(fraction) + "00").substr(0, 3));
  }
  if (!year || !month || !day || !hour || !minute || !second || !ms) return std::nullopt;
  if (*year < 1970 || *hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return (((days * 24 + *hour) * 60 + *minute) * 60 + *second) * 1000 + *ms;
}

std::string FormatTimestamp(int64_t time_ms) {
  KCC_CHECK(time_ms >= 0 && time_ms <= kTimestampMsMax);
  constexpr int64_t kDayMs = 86'400'000;
  const std::chrono::sys_days day{std::chrono::days(time_ms / kDayMs)};
  const std::chrono::year_month_day date(day);
  const int64_t within = time_ms % kDayMs;
  char text[64];
  std::snprintf(text, sizeof(text), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(within / 3'600'000), static_cast<int>(within / 60'000 % 60),
                static_cast<int>(within / 1000 % 60));
  std::string made = text;
  if (within % 1000 != 0) {
    std::snprintf(text, sizeof(text), ".%03d", static_cast<int>(within % 1000));
    made += text;
  }
  return made + "Z";
}

std::string ShownTimestamp(int64_t time_ms) {
  if (time_ms >= 0 && time_ms <= kTimestampMsMax) return FormatTimestamp(time_ms);
  return std::to_string(time_ms) + " ms after 1970";
}

}  // namespace kcc
