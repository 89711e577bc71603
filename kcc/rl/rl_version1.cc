#include "kcc/rl/rl_version1.h"

#include "kcc/base/json_writer.h"
#include "kcc/rl/correction_json.h"

namespace kcc::rl_version1 {
namespace {

std::string_view WhyText(RlReason reason) {
  switch (reason) {
    case RlReason::kNoToken:
      return "no token was compared: nothing passes on no evidence";
    case RlReason::kNotANumber:
      return "the figure is not a number: too little evidence for it";
    case RlReason::kWholeInside:
      return "the whole confidence interval is on one side of the limit";
    case RlReason::kStraddles:
      return "the confidence interval holds the limit: more rows would decide";
    case RlReason::kOfThisSample:
      return "the figure of this sample, compared as it is";
  }
  return "";
}

void WriteEvidence(const std::vector<RlEvidence>& evidence, JsonWriter* json) {
  json->Key("evidence").BeginArray();
  for (const RlEvidence& e : evidence) {
    json->BeginObject().Field("name", e.name).Field("value", e.value).Field("line", e.line);
    json->EndObject();
  }
  json->EndArray();
}

void WriteFinding(const RlFinding& finding, JsonWriter* json) {
  json->BeginObject().Field("fault", RlFaultName(finding.fault));
  json->Field("confidence", finding.confidence).Field("message", finding.message);
  json->Field("advice", RlFaultAdvice(finding.fault));
  if (finding.fault == RlFault::kUnsure) {
    json->Key("candidates").BeginArray();
    for (const RlFault candidate : finding.candidates) json->Value(RlFaultName(candidate));
    json->EndArray();
  }
  WriteEvidence(finding.evidence, json);
  json->EndObject();
}

void WriteReplayed(const RlCorrectionMetrics& f, JsonWriter* json) {
  json->BeginObject().Field("slice", f.slice).Field("tokens", f.tokens);
  json->Field("tokens_kept", f.tokens_kept).Field("rows", f.rows).Field("rows_kept", f.rows_kept);
  json->Field("ess", f.ess).Field("mean_weight", f.mean_weight);
  json->Field("bias_token", f.bias_token).Field("bias_sequence", f.bias_sequence);
  json->Field("variance", f.variance).Field("everything_rejected", f.everything_rejected());
  json->EndObject();
}

}  // namespace

std::string FiguresJson(const RlMetrics& figures) {
  JsonWriter json;
  json.BeginObject();
  json.Field("slice", figures.slice);
  std::string open;  // the object that is being written: names come grouped
  for (const RlNamedMetric& metric : NamedMetrics(figures)) {
    const std::string& name = metric.version1;
    const size_t dot = name.find('.');
    const std::string group = dot == std::string::npos ? "" : name.substr(0, dot);
    if (group != open) {
      if (!open.empty()) json.EndObject();
      if (!group.empty()) json.Key(group).BeginObject();
      open = group;
    }
    json.Field(dot == std::string::npos ? name : name.substr(dot + 1), metric.value);
  }
  if (!open.empty()) json.EndObject();
  json.Key("tv_bound").BeginArray().Value(figures.tv_bound.lo).Value(figures.tv_bound.hi);
  json.EndArray();
  json.Key("log_ratio_quantiles").BeginArray();
  for (const RlQuantile& quantile : figures.quantiles) {
    json.BeginObject().Field("p", quantile.p).Field("lo", quantile.log_ratio.lo);
    json.Field("hi", quantile.log_ratio.hi).EndObject();
  }
  json.EndArray();
  json.EndObject();
  return json.Take();
}

std::string JudgementsJson(std::span<const RlClauseVerdict> verdicts) {
  JsonWriter json;
  json.BeginArray();
  for (const RlClauseVerdict& each : verdicts) {
    json.BeginObject().Field("figure", each.clause.metric);
    json.Field(each.clause.at_least ? "atLeast" : "atMost", each.clause.threshold);
    json.Field("outcome", RlVerdictName(each.verdict)).Field("value", each.value);
    json.Key("interval").BeginArray().Value(each.interval.lo).Value(each.interval.hi).EndArray();
    json.Field("certified", each.certified).Field("why", WhyText(each.reason)).EndObject();
  }
  json.EndArray();
  return json.Take();
}

std::string CorrectionFiguresJson(std::span<const RlCorrectionMetrics> figures) {
  JsonWriter json;
  json.BeginArray();
  for (const RlCorrectionMetrics& f : figures) {
    json.BeginObject().Field("slice", f.slice);
    json.Field("tokens", f.tokens).Field("tokens_kept", f.tokens_kept);
    json.Field("rows", f.rows).Field("rows_kept", f.rows_kept);
    json.Field("units_outside", f.units_outside);
    json.Field("mean_weight", f.mean_weight).Field("mean_weight_kept", f.mean_weight_kept);
    json.Field("normalizer", f.normalizer).Field("ess", f.ess);
    json.Field("bias_token", f.bias_token).Field("bias_sequence", f.bias_sequence);
    json.Field("variance", f.variance).Field("everything_rejected", f.everything_rejected());
    json.EndObject();
  }
  json.EndArray();
  return json.Take();
}

std::string LintJson(const RlLintReport& report, const std::vector<RlSettingFinding>* settings) {
  JsonWriter json;
  json.BeginObject().Field("tokens", report.tokens);
  json.Key("findings").BeginArray();
  for (const RlFinding& finding : report.findings) WriteFinding(finding, &json);
  json.EndArray();
  json.Key("features").BeginObject();
  for (const RlEvidence& e : report.features) json.Field(e.name, e.value);
  json.EndObject();
  if (settings != nullptr) {
    json.Key("settings").BeginArray();
    for (const RlSettingFinding& finding : *settings) {
      json.BeginObject().Field("setting", finding.setting);
      json.Field("fault", RlSettingFaultName(finding.fault)).Field("note", finding.is_note());
      json.Field("message", finding.message);
      WriteEvidence(finding.evidence, &json);
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
  return json.Take();
}

std::string ReplayJson(const RlReplay& replay) {
  JsonWriter json;
  json.BeginObject().Field("recommended", replay.recommended).Field("reason", replay.reason);
  json.Key("corrections").BeginArray();
  for (const RlReplayRow& row : replay.rows) {
    JsonWriter correction(JsonWriter::Style::kCompact);
    WriteCorrection(row.correction, "batch_normalize", &correction);
    std::string line = correction.Take();
    line.pop_back();  // its newline
    json.BeginObject().Field("text", DescribeCorrection(row.correction));
    json.Field("bias_bound", BiasExpression(row.correction));
    json.Key("correction").Raw(line);
    json.Field("pareto", row.pareto).Field("kept_min", row.kept_min);
    json.Field("kept_min_slice", row.kept_min_slice);
    json.Key("figures").BeginArray();
    for (const RlCorrectionMetrics& f : row.metrics) WriteReplayed(f, &json);
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace kcc::rl_version1
