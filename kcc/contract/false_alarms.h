// The budget of false alarms: its text. Internal to contract/.
#pragma once

#include <string_view>

#include "kcc/base/result.h"
#include "kcc/contract/monitor_policy.h"

namespace kcc {

// The most requests, or milliseconds times the rate, that a budget may be stated over.
inline constexpr double kBudgetRequestsMax = 1e15;

// "1 per 10^6 requests", "1 per 1e6 requests", "1 per 30d". Of a span of time `requests` is left
// alone: only the rate says how many those are (CountRequests).
Result<FalseAlarmBudget> ReadFalseAlarms(std::string_view text);

// Fills in `requests` from the span and the rate; rounded up, so that the promise only becomes
// tighter. False if that is beyond kBudgetRequestsMax.
bool CountRequests(double rate_per_sec, FalseAlarmBudget* budget);

}  // namespace kcc
