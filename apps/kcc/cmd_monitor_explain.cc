// kcc monitor explain: in words what the gate will do, how soon it would see a shift, and what that
// costs in false alarms.
#include <array>
#include <cmath>

#include "apps/kcc/commands_monitor.h"
#include "apps/kcc/monitoring.h"
#include "kcc/base/strings.h"
#include "kcc/monitor/forecast.h"

namespace kcc::cli {
namespace {

constexpr std::array kFactors = {2.0, 3.0};
constexpr int64_t kRuns = 100;

void PrintLine(std::string_view text, size_t indent, Console& console) {
  console.out << std::string(indent, ' ')
              << WrapText(text, indent, static_cast<size_t>(console.width)) << '\n';
}

std::string SignalText(const PairForecast& pair) {
  const double alarm_level = pair.alarm_level;
  const std::string limit = ReadableNumber(pair.limit);
  if (pair.signal == "proof" && pair.of_events) {
    return "proof: one line that does not keep to the published schema, or cannot be read, "
           "violates it at once; that is no part of the budget of false alarms";
  }
  if (pair.signal == "proof") {
    return "proof: one audited value of " + pair.metric + " beyond " + limit +
           " violates it at once; that is no part of the budget of false alarms";
  }
  if (pair.signal == "existence") {
    return "existence: one value of " + pair.metric + " within " + limit + " shows it";
  }
  if (pair.signal == "detector") {
    return Counted(static_cast<size_t>(pair.detectors), "detector") + " on " + pair.metric +
           ": an alarm at the level c = " + ReadableNumber(alarm_level) + ", against a limit of " +
           limit;
  }
  if (pair.signal == "block") {
    return "block: " + pair.metric + " is judged window by window" +
           (pair.detectors == 0
                ? ", each by itself"
                : ", by a detector of the level c = " + ReadableNumber(alarm_level) +
                      " on the share of bad ones, " + limit);
  }
  return "nothing: no evidence of requests decides it here";
}

std::string OrderText(Action action, const std::string& target) {
  return std::string(Name(action)) +
         (target.empty() ? "; requests stay where they are" : "; requests go to " + target);
}

std::string ShiftText(const ShiftForecast& shift, const std::string& unit) {
  const std::string what =
      ReadableNumber(shift.factor) + " times the limit (" + ReadableNumber(shift.mean) + ")";
  if (shift.unseen * 2 > shift.runs) {
    return what + " is rarely seen: " + std::to_string(shift.unseen) + " of " +
           std::to_string(shift.runs) + " simulated streams had no alarm";
  }
  return what + " is seen after " + ReadableNumber(std::round(shift.observations)) + " " + unit +
         " of the slice on average" +
         (shift.unseen == 0 ? ""
                            : ", or later (" + std::to_string(shift.unseen) + " of " +
                                  std::to_string(shift.runs) + " streams had no alarm)");
}

void PrintPair(const PairForecast& pair, double audit_rate, Console& console) {
  console.out << Paint(Style::kBold, pair.clause, console.colour_out) << " on " << pair.slice
              << (pair.of_train ? " (by train's outcomes)" : "") << '\n';
  PrintLine("watched by " + SignalText(pair), 2, console);
  if (pair.signal != "none") {
    PrintLine("a violation orders " + OrderText(pair.action, pair.target), 2, console);
  }
  const std::string unit = pair.signal == "block" ? "windows" : "requests";
  const std::string seen = pair.of_events && pair.signal != "block" ? "lines" : "audited " + unit;
  for (const ShiftForecast& shift : pair.shifts) {
    std::string text = ShiftText(shift, seen);
    if (!pair.of_events && audit_rate > 0 && shift.unseen * 2 <= shift.runs) {
      text += "; at an audit rate of " + ReadableNumber(audit_rate) + " those are " +
              ReadableNumber(std::round(shift.observations / audit_rate)) + " of all";
    }
    PrintLine(text, 2, console);
  }
  PrintLine(pair.certifies
                ? "can become satisfied, by the PASS test over " +
                      std::string(pair.of_events ? "all lines" : "audited requests")
                : "never becomes satisfied here" + (pair.why.empty() ? "" : ": " + pair.why),
            2, console);
}

void PrintWhole(const MonitorForecast& forecast, const MonitorPolicy& policy, Console& console) {
  const FalseAlarmBudget& budget = policy.false_alarms;
  PrintLine("False alarms: " + std::to_string(forecast.detectors) +
                " detectors for each kernel, each with "
                "the level c = " +
                ReadableNumber(forecast.alarm_level) +
                ". While nothing is wrong, the chance "
                "of any alarm within T audited requests of a kernel is at most T times " +
                ReadableNumber(budget.alarms) + " in " +
                ReadableNumber(static_cast<double>(budget.requests)) + ".",
            0, console);
  PrintLine("Broken evidence orders " + OrderText(forecast.on_broken, forecast.broken_target) + ".",
            0, console);
  PrintLine("Release: a guarded kernel is shown " + ReadableNumber(100 * policy.audit.probe_rate) +
                " % of requests as probes. It is released when the PASS test since its last alarm "
                "certifies "
                "every clause that alarmed, at level " +
                ReadableNumber(policy.release.alpha) +
                ", halved by every strike; a clause without such a test asks for " +
                std::to_string(policy.release.clean) +
                " clean probes. Then it is on probation for " +
                std::to_string(policy.release.probation) +
                " audited requests. Time and silence release nothing.",
            0, console);
  PrintLine("Where every kernel is bad: " + std::string(Name(policy.panic)) + ".", 0, console);
  PrintLine(
      "How soon: means of " + std::to_string(kRuns) +
          " simulated streams of the detector itself, from a fixed seed, whose "
          "observations are 0 or 1 and shifted from the first one on. Values in between are seen "
          "sooner.",
      0, console);
}

void WriteForecast(const MonitorForecast& forecast, Console& console) {
  JsonWriter json;
  json.BeginObject().Field("detectors", forecast.detectors);
  json.Field("alarmLevel", forecast.alarm_level).Field("onBroken", Name(forecast.on_broken));
  json.Field("brokenTarget", forecast.broken_target).Key("clauses").BeginArray();
  for (const PairForecast& pair : forecast.pairs) {
    json.BeginObject().Field("clause", pair.clause).Field("slice", pair.slice);
    if (pair.of_train) json.Field("ofTrain", true);
    json.Field("signal", pair.signal).Field("metric", pair.metric).Field("limit", pair.limit);
    json.Field("detectors", pair.detectors).Field("certifies", pair.certifies);
    json.Field("why", pair.why).Field("action", Name(pair.action)).Field("target", pair.target);
    json.Key("shifts").BeginArray();
    for (const ShiftForecast& shift : pair.shifts) {
      json.BeginObject().Field("factor", shift.factor).Field("mean", shift.mean);
      json.Field("observations", shift.observations).Field("runs", shift.runs);
      json.Field("unseen", shift.unseen).EndObject();
    }
    json.EndArray().EndObject();
  }
  console.out << json.EndArray().EndObject().Take();
}

}  // namespace

int RunMonitorExplain(const MonitorExplainOptions& options, Console& console) {
  int exit_code = kExitOk;
  const auto documents =
      RequireMonitorDocuments(options.contract, options.policy, console, &exit_code);
  if (!documents) return exit_code;
  ForecastOptions how;
  how.stage = StageNamed(options.stage);
  how.runs = kRuns;
  how.observations_max = 50'000;  // a second or two for a contract of twenty clauses
  const auto forecast = ForecastMonitor(documents->contract, documents->policy, kFactors, how);
  if (!forecast.has_value()) return ReportError(forecast.error(), console);
  if (console.json) {
    WriteForecast(*forecast, console);
    return kExitOk;
  }
  const double rate =
      options.audited_rate > 0 ? options.audited_rate : documents->policy.audit.rate;
  PrintWhole(*forecast, documents->policy, console);
  for (const PairForecast& pair : forecast->pairs) {
    console.out << '\n';
    PrintPair(pair, rate, console);
  }
  return kExitOk;
}

}  // namespace kcc::cli
