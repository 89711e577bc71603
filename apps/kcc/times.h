// Times as people write them: UTC, "2026-11-18T08:30:00Z".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc::cli {

// With milliseconds where there are some.
std::string TimeText(int64_t time_ms);

// "2026-11-18", "2026-11-18T08:30:00Z" with up to three decimals, or milliseconds since 1970.
Result<int64_t> ParseTime(std::string_view text);

}  // namespace kcc::cli
