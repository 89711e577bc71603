#include "kcc/monitorlog/operating_page.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/monitorlog/monitor_assets.h"
#include "kcc/report/static_page.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

// Percent of the width on a logarithmic scale from 1 to `most`.
double PlaceOf(double value, double most) {
  if (!(value > 1) || !(most > 1)) return 0;
  return std::clamp(100 * std::log10(value) / std::log10(most), 0.0, 100.0);
}

std::string Percent(double value) { return ReadableNumber(value) + "%"; }

std::string RowHtml(const ShiftForecast& shift, double most) {
  const double from = PlaceOf(shift.early, most);
  const double to = PlaceOf(shift.late, most);
  return "<div class=\"row\"><span>" + ReadableNumber(shift.factor) + " × the limit<br><small>" +
         ReadableNumber(shift.mean) +
         "</small></span><div class=\"track\"><span class=\"spread\" "
         "style=\"left:" +
         Percent(from) + ";width:" + Percent(std::max(0.5, to - from)) +
         "\"></span><span class=\"mean\" style=\"left:" +
         Percent(std::min(99.5, PlaceOf(shift.observations, most))) +
         "\"></span></div><span class=\"number\">" + (shift.unseen == 0 ? "" : "&gt; ") +
         ReadableNumber(shift.observations) + "</span></div>\n";
}

std::string CurveHtml(const OperatingCurve& curve) {
  double most = 10;
  for (const ShiftForecast& shift : curve.pair.shifts) most = std::max(most, shift.late);
  std::string body = "<div class=\"curve card\">\n";
  for (const ShiftForecast& shift : curve.pair.shifts) body += RowHtml(shift, most);
  return body +
         "<p>The line is the mean, the band holds eight runs in ten. The scale is "
         "logarithmic, from 1 to " +
         ReadableNumber(most) + " observations. &gt;: some runs had no alarm within " +
         std::to_string(curve.observations_max) + " and count as that many.</p></div>\n";
}

std::string FalseAlarmsHtml(const OperatingCurve& curve) {
  const std::array<std::string, 4> head = {"runs", "observations in each", "runs with an alarm",
                                           "bound on their share"};
  const std::vector<std::vector<std::string>> rows = {
      {std::to_string(curve.in_control.runs), std::to_string(curve.observations_max),
       std::to_string(curve.false_alarms()),
       ReadableNumber(std::min(1.0, curve.false_alarms_bound()))}};
  return TableHtml(head, rows);
}

void WriteShift(const ShiftForecast& shift, JsonWriter* json) {
  json->BeginObject().Field("factor", shift.factor).Field("mean", shift.mean);
  json->Field("observations", shift.observations).Field("p10", shift.early);
  json->Field("p90", shift.late).Field("runs", shift.runs).Field("unseen", shift.unseen);
  json->EndObject();
}

}  // namespace

std::string OperatingCurveJson(const OperatingCurve& curve) {
  JsonWriter json;
  json.BeginObject().Field("kccOperatingCurve", 1).Field("contract", curve.contract);
  json.Field("policy", curve.policy).Field("clause", curve.pair.clause);
  json.Field("slice", curve.pair.slice).Field("metric", curve.pair.metric);
  json.Field("limit", curve.pair.limit).Field("alarmLevel", curve.alarm_level);
  json.Field("observationsMax", curve.observations_max).Field("seed", curve.seed);
  json.Key("shifts").BeginArray();
  for (const ShiftForecast& shift : curve.pair.shifts) WriteShift(shift, &json);
  json.EndArray().Key("inControl").BeginObject();
  json.Field("runs", curve.in_control.runs).Field("falseAlarms", curve.false_alarms());
  json.Field("bound", curve.false_alarms_bound()).EndObject();
  return json.EndObject().Take();
}

std::string OperatingCurvePage(const OperatingCurve& curve) {
  const std::string title = "Operating curves of " + curve.pair.clause;
  const std::string lead = curve.contract + " under " + curve.policy + ": " + curve.pair.metric +
                           " on " + curve.pair.slice + ", limit " +
                           ReadableNumber(curve.pair.limit) +
                           ", alarm at c = " + ReadableNumber(curve.alarm_level) + ".";
  const std::array<PageSection, 2> sections = {
      {{"delay", "How soon a shift is seen",
        "Audited observations from the shift to the alarm. Observations are 0 or 1, which is the "
        "latest that a mean can be seen; the shift is there from the first one on.",
        CurveHtml(curve)},
       {"false-alarms", "Alarms for nothing",
        "Streams whose mean is the limit itself, the worst that is still in control. The "
        "chance of an alarm within T observations is at most T/c.",
        FalseAlarmsHtml(curve)}}};
  const std::string foot = "kcc monitor simulate, seed " + std::to_string(curve.seed) +
                           ": the detector that the monitor uses, on simulated streams.";
  StaticPage page;
  page.kind = "monitor";
  page.title = title;
  page.lead = lead;
  page.sections = sections;
  page.foot = foot;
  page.style = kPage_monitor_css;
  return StaticPageHtml(page);
}

}  // namespace kcc
