// Scalars of the contract language: text -> number, ratio, duration, size, window.
//
// Every function takes the scalar's text and gives the value or says, in words that follow "'text'
// ", what it is not. Decimal units are applied to the exponent of the text, so that 0.1% and 0.001
// are the same double and two spellings of one value have one digest.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"

namespace kcc {

// "0.05", "2e-3". Refuses inf, nan, hexadecimal and thousands separators.
Result<double> ReadNumber(std::string_view text);

// "0.01" or "1%".
Result<double> ReadRatio(std::string_view text);

// "1%" of 0.01: the fewest digits that mean the same ratio.
std::string PercentText(double ratio);

// "request", "100 requests", "250ms", "30s", "5m", "24h".
Result<Window> ReadWindow(std::string_view text);

// "90s", "24h": whole milliseconds, from none up to 366 days.
Result<int64_t> ReadDuration(std::string_view text);

// "5 per s", "300 per m": events a second, more than none. RateText gives the shortest text that
// means the same.
Result<double> ReadRate(std::string_view text);
std::string RateText(double per_sec);

// "512KiB", "1MiB", "2MB": whole bytes. SizeText is in the largest binary unit that they fill.
Result<int64_t> ReadSize(std::string_view text);
std::string SizeText(int64_t bytes);

// "2027-06-30": a day that the calendar has.
bool IsDate(std::string_view text);

// A threshold in the metric's own unit: a plain number always; 1% where the metric is a share;
// a duration where it is in ms (400ms, 0.4s); a size where it is in MB (512MiB, 2GB).
Result<double> ReadThreshold(std::string_view text, const Metric& metric);

// True if the metric lies in [0, 1] by definition.
bool IsShare(const Metric& metric);

// The unit of the metric's values; a rate is a pure number, whatever it counts.
Unit UnitOf(const Metric& metric);

inline constexpr int kIdentifierLengthMax = 128;
bool IsIdentifier(std::string_view text);  // [A-Za-z0-9][-A-Za-z0-9_.]*, at most that long
bool IsName(std::string_view text);        // [a-z0-9][-a-z0-9.]*, at most 128
bool IsVersion(std::string_view text);     // MAJOR.MINOR.PATCH without leading zeros

}  // namespace kcc
