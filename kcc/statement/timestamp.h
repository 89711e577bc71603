// Points in time, as statements and keyrings write them: RFC 3339 in UTC with a Z,
// "2026-11-18T09:30:00Z", or with a fraction, "2026-11-18T09:30:00.250Z", of which milliseconds
// count. In programs they are milliseconds since the Unix epoch. Nothing here looks at a clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kcc {

// Years 1970 to 9999.
inline constexpr int64_t kTimestampMsMax = 253'402'300'799'999;

// None: not a time in one of the two forms. A leap second (:60) is none either.
std::optional<int64_t> ParseTimestamp(std::string_view text);

// For 0 to kTimestampMsMax; the shorter form where it says all.
std::string FormatTimestamp(int64_t time_ms);

// For messages about times that others wrote: any number, as itself where no time has it.
std::string ShownTimestamp(int64_t time_ms);

}  // namespace kcc
