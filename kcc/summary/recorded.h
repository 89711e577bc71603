// What a side recorded of its run, as far as it is evidence.
#pragma once

#include <optional>
#include <string_view>

#include "kcc/trace/trace.h"

namespace kcc {

// Whether the side gave the request up. How long it would have taken is then not known, and a
// latency that stands beside the flag is only how long somebody waited.
bool TimedOut(const Request& request);

// A field that is a finite number, and no latency of a request that timed out. JSON has no
// infinities, but other front ends might.
std::optional<double> RecordedNumber(const Request& request, std::string_view field);

// The same, where the quantity of that name can have the value. A time or a size below 0 is how
// some programs write that they did not measure it.
std::optional<double> PossibleNumber(const Request& request, std::string_view field);

}  // namespace kcc
