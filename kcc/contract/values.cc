#include "kcc/contract/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }

// A unit is 10^exponent of the base unit, times a factor that is no power of ten.
struct Suffix {
  std::string_view name;
  int exponent;
  double factor = 1;
};

// Of a millisecond.
constexpr std::array kDurations = {
    Suffix{"us", -3},  Suffix{"ms", 0},    Suffix{"s", 3},
    Suffix{"m", 4, 6}, Suffix{"h", 5, 36}, Suffix{"d", 5, 864},
};

constexpr double kTimeMax = 366.0 * 24 * 3600 * 1000;  // in milliseconds

// What a rate may be stated over, in seconds.
struct Period {
  std::string_view name;
  double seconds;
};
constexpr std::array kPeriods = {Period{"s", 1}, Period{"m", 60}, Period{"h", 3600},
                                 Period{"d", 86400}};

// Of a megabyte, 10^6 bytes.
constexpr std::array kSizes = {
    Suffix{"B", -6},
    Suffix{"kB", -3},
    Suffix{"KB", -3},
    Suffix{"MB", 0},
    Suffix{"GB", 3},
    Suffix{"TB", 6},
    Suffix{"KiB", -6, 1024.0},
    Suffix{"MiB", -6, 1048576.0},
    Suffix{"GiB", -6, 1073741824.0},
    Suffix{"TiB", -6, 1099511627776.0},
};

// The number times 10^exponent, rounded once.
std::optional<double> ParseScaled(std::string_view digits, int exponent) {
  const size_t e = digits.find_first_of("eE");
  if (e != std::string_view::npos) {
    std::string_view written = digits.substr(e + 1);
    if (written.starts_with('+')) written.remove_prefix(1);
    int own = 0;
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), own);
    if (error != std::errc() || end != written.data() + written.size() || std::abs(own) > 9999) {
      return {};
    }
    exponent += own;
    digits = digits.substr(0, e);
  }
  return ParseNumber(std::string(digits) + "e" + std::to_string(exponent));
}

// Splits "0.4s" into "0.4" and "s".
std::pair<std::string_view, std::string_view> SplitUnit(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && (IsLower(text[end - 1]) || IsUpper(text[end - 1]) || text[end - 1] == '%')) {
    --end;
  }
  const size_t digits = text.find_last_not_of(' ', end == 0 ? 0 : end - 1);
  const size_t size = end == 0 || digits == std::string_view::npos ? 0 : digits + 1;
  return {text.substr(0, size), text.substr(end)};
}

// In units of 10^-shift of the table's own.
std::optional<double> ParseWithUnit(std::string_view text, std::span<const Suffix> units,
                                    int shift = 0) {
  const auto [digits, name] = SplitUnit(text);
  for (const Suffix& unit : units) {
    if (unit.name != name) continue;
    const int exponent = unit.exponent + shift;
    const std::optional<double> value = ParseScaled(digits, exponent);
    if (!value || unit.factor == 1) return value;
    // A binary size is a whole number of bytes as a rule; multiplying before the decimal shift
    // would round twice.
    const std::optional<double> plain = ParseNumber(digits);
    if (plain && exponent < 0) return *plain * unit.factor / std::pow(10.0, -exponent);
    return *value * unit.factor;
  }
  return {};
}

// "1%" as a ratio.
std::optional<double> ParsePercentage(std::string_view text) {
  const auto [digits, sign] = SplitUnit(text);
  if (sign != "%") return {};
  return ParseScaled(digits, -2);
}

Error Not(std::string_view text, std::string_view what) {
  return InvalidError("'" + std::string(text) + "' is not " + std::string(what));
}

bool IsUnit(std::string_view name, std::span<const Suffix> units) {
  return std::any_of(units.begin(), units.end(),
                     [&](const Suffix& unit) { return unit.name == name; });
}

// Why a threshold that does carry some unit does not fit the metric.
Error WrongUnit(std::string_view text, const Metric& metric) {
  const Unit unit = UnitOf(metric);
  const std::string name = MetricName(metric);
  const std::string wanted =
      IsShare(metric)            ? name + " is a share: write a number from 0 to 1, or a percentage"
      : unit == Unit::kMs        ? name + " is in ms: write 400, 400ms or 0.4s"
      : unit == Unit::kMegabytes ? name + " is in MB: write 512, 512MB or 512MiB"
      : unit == Unit::kPure
          ? name + " is a pure number: write it without a unit"
          : name + " is in " + std::string(Name(unit)) + ": write the number without a unit";
  const std::string_view suffix = SplitUnit(text).second;
  const bool known = suffix == "%" || IsUnit(suffix, kDurations) || IsUnit(suffix, kSizes);
  return InvalidError("'" + std::string(text) +
                      (known ? "' has the wrong unit" : "' is not a number") + "; " + wanted);
}

}  // namespace

Result<double> ReadNumber(std::string_view text) {
  if (const auto number = ParseNumber(text)) return *number;
  return Not(text, "a number");
}

Result<double> ReadRatio(std::string_view text) {
  if (const auto number = ParseNumber(text)) return *number;
  if (const auto ratio = ParsePercentage(text)) return *ratio;
  return Not(text, "a ratio; write a number from 0 to 1, or a percentage such as 1%");
}

std::string PercentText(double ratio) {
  // 0.07 * 100 is not 7 in binary.
  const double percent = ratio * 100;
  double scale = 1;
  for (int digits = 0; digits <= 12; ++digits, scale *= 10) {
    const double rounded = std::round(percent * scale) / scale;
    if (rounded / 100 == ratio) return ShortestNumber(rounded) + "%";
  }
  return ShortestNumber(percent) + "%";
}

Result<int64_t> ReadDuration(std::string_view text) {
  const auto time = ParseWithUnit(text, kDurations);
  if (!time) return Not(text, "a time; write a number and its unit, such as 90s, 30m or 24h");
  if (*time < 0 || *time > kTimeMax || std::floor(*time) != *time) {
    return Not(text, "a whole number of milliseconds, at most 366 days");
  }
  return static_cast<int64_t>(*time);
}

Result<double> ReadRate(std::string_view text) {
  constexpr std::string_view kPer = " per ";
  constexpr double kRateMin = 1e-9;
  constexpr double kRateMax = 1e9;
  const size_t per = std::min(text.find(kPer), text.size());
  const auto count = ParseNumber(text.substr(0, per));
  const std::string_view time = text.substr(std::min(per + kPer.size(), text.size()));
  for (const Period& period : kPeriods) {
    if (!count || time != period.name) continue;
    const double rate = *count / period.seconds;
    if (rate >= kRateMin && rate <= kRateMax) return rate;
    return Not(text, "a rate between 1e-9 and 1e9 per s");
  }
  return Not(text,
             "a rate; write how many and in which time, such as 5 per s, 100 per m or 1 per h");
}

std::string RateText(double per_sec) {
  std::string shortest;
  for (const Period& period : kPeriods) {
    const std::string count = ShortestNumber(per_sec * period.seconds);
    if (ParseNumber(count).value_or(0) / period.seconds != per_sec) continue;
    const std::string text = count + " per " + std::string(period.name);
    if (shortest.empty() || text.size() < shortest.size()) shortest = text;
  }
  return shortest;
}

Result<int64_t> ReadSize(std::string_view text) {
  constexpr int kOfBytes = 6;  // the table is of megabytes
  const auto bytes = ParseWithUnit(text, kSizes, kOfBytes);
  if (!bytes) return Not(text, "a size; write a number and its unit, such as 512KiB, 1MiB or 2MB");
  constexpr double kBytesMax = 1e15;
  if (*bytes < 0 || *bytes > kBytesMax || std::floor(*bytes) != *bytes) {
    return Not(text, "a whole number of bytes, at most 1000TB");
  }
  return static_cast<int64_t>(*bytes);
}

std::string SizeText(int64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes > 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes).append(kUnits[unit]);
}

bool IsDate(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd";
  if (text.size() != kForm.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (kForm[i] == 'd' ? !IsDigit(text[i]) : text[i] != kForm[i]) return false;
  }
  const auto part = [&](size_t from, size_t size) {
    int value = 0;
    for (const char c : text.substr(from, size)) value = value * 10 + (c - '0');
    return value;
  };
  const int year = part(0, 4);
  const int month = part(5, 2);
  const int day = part(8, 2);
  constexpr std::array kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (year < 1 || month < 1 || month > 12 || day < 1) return false;
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  const int last = kDays[static_cast<size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
  return day <= last;
}

Result<Window> ReadWindow(std::string_view text) {
  constexpr std::string_view kForms = "a window; write request, 100 requests, or a time such as 1m";
  constexpr double kRequestsMax = 1e9;
  if (text == "request") return Window{};
  if (const auto time = ParseWithUnit(text, kDurations)) {
    if (*time < 1 || *time > kTimeMax || std::floor(*time) != *time) {
      return Not(text, "a whole number of milliseconds between 1ms and 366 days");
    }
    return Window{Window::Kind::kTime, static_cast<int64_t>(*time)};
  }
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return Not(text, kForms);
  const std::string_view word = text.substr(text.find_last_of(' ') + 1);
  const auto count = ParseNumber(text.substr(0, blank));
  if (!count || (word != "requests" && word != "request")) return Not(text, kForms);
  if (*count < 1 || *count > kRequestsMax || std::floor(*count) != *count) {
    return Not(text, "a whole number of requests between 1 and 1e9");
  }
  if (*count == 1) return Window{};
  return Window{Window::Kind::kRequests, static_cast<int64_t>(*count)};
}

bool IsShare(const Metric& metric) {
  return MetricMin(metric) == 0 && MetricMax(metric) == 1 && UnitOf(metric) == Unit::kPure;
}

Unit UnitOf(const Metric& metric) {
  return metric.aggregate == Aggregate::kRate ? Unit::kPure : metric.quantity->unit;
}

Result<double> ReadThreshold(std::string_view text, const Metric& metric) {
  if (const auto number = ParseNumber(text)) return *number;
  std::optional<double> value;
  if (IsShare(metric)) {
    value = ParsePercentage(text);
  } else if (UnitOf(metric) == Unit::kMs) {
    value = ParseWithUnit(text, kDurations);
  } else if (UnitOf(metric) == Unit::kMegabytes) {
    value = ParseWithUnit(text, kSizes);
  }
  if (value) return *value;
  return WrongUnit(text, metric);
}

bool IsIdentifier(std::string_view text) {
  const auto alphanumeric = [](char c) { return IsDigit(c) || IsLower(c) || IsUpper(c); };
  return !text.empty() && text.size() <= size_t{kIdentifierLengthMax} && alphanumeric(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool IsName(std::string_view text) {
  return IsIdentifier(text) &&
         std::none_of(text.begin(), text.end(), [](char c) { return IsUpper(c) || c == '_'; });
}

bool IsVersion(std::string_view text) {
  int parts = 0;
  while (true) {
    const size_t dot = text.find('.');
    const std::string_view part = text.substr(0, dot);
    if (part.empty() || part.size() > 9 || !std::all_of(part.begin(), part.end(), IsDigit) ||
        (part.size() > 1 && part[0] == '0')) {
      return false;
    }
    ++parts;
    if (dot == std::string_view::npos) return parts == 3;
    text.remove_prefix(dot + 1);
  }
}

}  // namespace kcc
