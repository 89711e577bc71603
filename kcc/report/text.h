// How numbers and foreign words look to people, the same in every format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/judge/verdict.h"

namespace kcc {

// At most four significant digits, but every digit before the point: "0.0712", "1.5e-5", "24117".
std::string ShortNumber(double value);

// "1,234,567".
std::string Grouped(int64_t value);

// A threshold that passes, rounded to four digits in the direction in which it still does.
std::string PassingNumber(BoundKind bound, double value);

// "3.2%", with at most three significant digits.
std::string Percent(double share);

// "0.0712", "[0.01, 0.03]" or "not measured".
std::string IntervalText(const Interval& interval);

// "≤ 0.05" or "≥ 0.98"; the threshold in full.
std::string BoundText(BoundKind bound, double threshold);

// "3.2% of 4,000 windows beyond (budget 1%)".
std::string ExceedanceText(const ExceedanceCount& exceedance);

// "512 requests, 120,000 tokens"; tokens are left out where there are none.
std::string CountText(const SampleCount& count);

// One line of well-formed UTF-8: control characters, line breaks and the marks that reorder text
// become blanks, so that a request id can neither move the cursor nor fake another line.
std::string OneLine(std::string_view text);

// Columns a terminal gives the text: code points, East Asian wide ones twice, combining ones none.
size_t DisplayWidth(std::string_view utf8);

// At most `width` columns, the last of them "…" if something was cut.
std::string Truncated(std::string_view utf8, size_t width);

// Escaped for HTML and XML text and double-quoted attributes; characters that XML 1.0 forbids
// are removed and broken UTF-8 becomes U+FFFD.
std::string MarkupEscaped(std::string_view text);

// Without blanks and line breaks: JSON that a formatter has been over still begins and nests the
// same way.
std::string WithoutBlanks(std::string_view text);

}  // namespace kcc
