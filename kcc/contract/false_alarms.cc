#include "kcc/contract/false_alarms.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/contract/policy.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

std::string_view TrimBlanks(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

// "1000000", "1e6" or "10^6".
std::optional<double> ParseCount(std::string_view text) {
  constexpr std::string_view kPower = "10^";
  if (!text.starts_with(kPower)) return ParseNumber(text);
  const std::string_view exponent = text.substr(kPower.size());
  if (exponent.empty() || exponent.size() > 2 ||
      exponent.find_first_not_of("0123456789") != std::string_view::npos) {
    return {};
  }
  return ParseNumber("1e" + std::string(exponent));
}

// The text without the word, if it ends in it.
std::optional<std::string_view> Before(std::string_view text, std::string_view word) {
  if (!text.ends_with(word)) return {};
  return TrimBlanks(text.substr(0, text.size() - word.size()));
}

Error BadBudget(std::string_view text, std::string_view why) {
  return InvalidError("'" + std::string(text) + "' " + std::string(why));
}

}  // namespace

Result<FalseAlarmBudget> ReadFalseAlarms(std::string_view text) {
  constexpr std::string_view kForms =
      "is not a budget of false alarms; write 1 per 10^6 requests, or 1 per 30d with auditedRate";
  constexpr std::string_view kPer = " per ";
  const size_t per = text.find(kPer);
  if (per == std::string_view::npos) return BadBudget(text, kForms);
  const auto alarms = ParseNumber(TrimBlanks(text.substr(0, per)));
  const std::string_view over = TrimBlanks(text.substr(per + kPer.size()));
  if (!alarms) return BadBudget(text, kForms);
  if (*alarms <= 0) {
    return BadBudget(text,
                     "allows no false alarm at all, and only a monitor that never raises one keeps "
                     "that; write how often one may come, such as 1 per 10^9 requests");
  }
  FalseAlarmBudget budget;
  budget.alarms = *alarms;
  auto written = Before(over, " requests");
  if (!written) written = Before(over, " request");
  if (!written) {
    const Result<int64_t> span = ReadDuration(over);
    if (!span.has_value() || *span == 0) return BadBudget(text, kForms);
    budget.span_ms = *span;
    return budget;
  }
  const auto requests = ParseCount(*written);
  if (!requests) return BadBudget(text, kForms);
  if (*requests < 1 || *requests > kBudgetRequestsMax || std::floor(*requests) != *requests) {
    return BadBudget(text, "is not over a whole number of requests between 1 and 10^15");
  }
  budget.requests = static_cast<int64_t>(*requests);
  return budget;
}

bool CountRequests(double rate_per_sec, FalseAlarmBudget* budget) {
  budget->rate_per_sec = rate_per_sec;
  const double requests =
      std::ceil(static_cast<double>(budget->span_ms.value_or(0)) * rate_per_sec / 1000);
  if (requests > kBudgetRequestsMax) return false;
  budget->requests = std::max<int64_t>(1, static_cast<int64_t>(requests));
  return true;
}

std::string FalseAlarmsText(const FalseAlarmBudget& budget) {
  const std::string alarms = ShortestNumber(budget.alarms) + " per ";
  if (budget.span_ms) return alarms + DurationText(*budget.span_ms);
  std::string requests = std::to_string(budget.requests);
  constexpr size_t kZerosMin = 4;  // below, the digits are as easy to read
  const size_t zeros = requests.size() - 1;
  if (zeros >= kZerosMin && requests.front() == '1' &&
      requests.find_first_not_of('0', 1) == std::string::npos) {
    requests = "10^" + std::to_string(zeros);
  }
  return alarms + requests + (requests == "1" ? " request" : " requests");
}

}  // namespace kcc
