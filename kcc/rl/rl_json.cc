#include "kcc/rl/rl_json.h"

#include "kcc/base/check.h"
#include "kcc/base/json_writer.h"
#include "kcc/rl/correction_json.h"
#include "kcc/rl/published.h"

namespace kcc {
namespace {

void WriteInterval(const Interval& interval, JsonWriter* json) {
  if (!interval.known()) {
    json->Null();
    return;
  }
  json->BeginArray().Value(interval.lo).Value(interval.hi).EndArray();
}

void WriteTexts(std::string_view key, const std::vector<std::string>& texts, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string& text : texts) json->Value(text);
  json->EndArray();
}

void WriteWords(std::string_view key, std::string_view words, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string_view word : DialectWords(words)) json->Value(word);
  json->EndArray();
}

// "all": {…}, "slices": [{"slice": NAME, …}]. Two keys, since a slice may be called "all" too.
template <class Metrics, class WriteFields>
void WriteBySlice(std::span<const Metrics> metrics, WriteFields write_fields, JsonWriter* json) {
  json->Key("all").BeginObject();
  write_fields(metrics.front(), json);
  json->EndObject().Key("slices").BeginArray();
  for (const Metrics& of_slice : metrics.subspan(1)) {
    json->BeginObject().Field("slice", of_slice.slice);
    write_fields(of_slice, json);
    json->EndObject();
  }
  json->EndArray();
}

// ---- diagnose ----------------------------------------------------------------------------------

void WriteMetrics(const RlMetrics& metrics, JsonWriter* json) {
  json->Key("metrics").BeginObject();
  for (const RlNamedMetric& metric : NamedMetrics(metrics)) json->Field(metric.name, metric.value);
  json->EndObject();
  json->Key("confidenceIntervals").BeginObject().Key(kRlCertifiedMetric);
  WriteInterval(metrics.tv_bound, json);
  json->EndObject();
  json->Key("logRatioQuantiles").BeginArray();
  for (const RlQuantile& quantile : metrics.quantiles) {
    json->BeginObject().Field("p", quantile.p).Key("interval");
    WriteInterval(quantile.log_ratio, json);
    json->EndObject();
  }
  json->EndArray();
}

// As a clause of report.json, without what RL clauses have not: id, family, level.
void WriteClause(const RlClauseVerdict& judged, JsonWriter* json) {
  json->BeginObject().Field("metric", judged.metric);
  json->Field("bound", judged.clause.at_least ? "atLeast" : "atMost");
  json->Field("threshold", judged.clause.threshold);
  json->Field("verdict", RlVerdictName(judged.verdict)).Field("value", judged.value);
  json->Key("confidenceInterval");
  WriteInterval(judged.interval, json);
  json->Field("certified", judged.certified).Field("reason", RlReasonText(judged.reason));
  json->EndObject();
}

// ---- lint --------------------------------------------------------------------------------------

void WriteEvidence(const std::vector<RlEvidence>& evidence, JsonWriter* json) {
  json->Key("evidence").BeginArray();
  for (const RlEvidence& e : evidence) {
    json->BeginObject().Field("name", e.name).Field("value", e.value);
    json->Field("threshold", e.line).EndObject();
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

void WriteSetting(const RlSettingFinding& finding, JsonWriter* json) {
  json->BeginObject().Field("setting", finding.setting);
  json->Field("fault", RlSettingFaultName(finding.fault)).Field("note", finding.is_note());
  json->Field("message", finding.message);
  WriteEvidence(finding.evidence, json);
  json->EndObject();
}

void WriteTraining(const RlTrainingFinding& finding, JsonWriter* json) {
  json->BeginObject().Field("fault", RlTrainingFaultName(finding.fault));
  json->Field("note", finding.is_note).Field("message", finding.message);
  json->Field("advice", RlTrainingFaultAdvice(finding.fault));
  WriteEvidence(finding.evidence, json);
  json->EndObject();
}

// ---- correct and replay ------------------------------------------------------------------------

void WriteRule(const RlCorrection& correction, JsonWriter* json) {
  json->Field("text", DescribeCorrection(correction));
  json->Field("biasBound", BiasExpression(correction));
  json->Key("correction");
  WriteCorrection(correction, kBatchNormalizeKey, json);
}

void WriteCorrected(const RlCorrectionMetrics& f, JsonWriter* json) {
  json->Field("tokens", f.tokens).Field("tokensKept", f.tokens_kept);
  json->Field("rows", f.rows).Field("rowsKept", f.rows_kept);
  json->Field("unitsOutside", f.units_outside);
  json->Field("meanWeight", f.mean_weight).Field("meanWeightKept", f.mean_weight_kept);
  json->Field("normalizer", f.normalizer).Field("ess", f.ess);
  json->Field("biasToken", f.bias_token).Field("biasSequence", f.bias_sequence);
  json->Field("variance", f.variance).Field("everythingRejected", f.everything_rejected());
}

void WriteOwnKernel(const std::vector<RlOwnKernel>& owns, JsonWriter* json) {
  json->Key("ownKernel").BeginArray();
  for (const RlOwnKernel& own : owns) {
    json->BeginObject().Field("setting", own.setting);
    json->Field("statistic", RlStatisticName(own.rule.statistic));
    json->Field("aggregate", RlAggregateName(own.rule.aggregate));
    json->Field("threshold", own.rule.high).Field("units", own.units).Field("mean", own.mean);
    json->Key("quantiles").BeginArray();
    for (const RlOwnQuantile& quantile : own.quantiles) {
      json->BeginObject().Field("p", quantile.p).Field("value", quantile.value).EndObject();
    }
    json->EndArray().Field("tokens", own.tokens).Field("tokensKept", own.tokens_kept);
    json->Field("belowOwn", own.below_own()).EndObject();
  }
  json->EndArray();
}

void WriteReplayed(const RlReplayRow& row, const std::vector<RlOwnKernel>* own, JsonWriter* json) {
  json->BeginObject();
  WriteRule(row.correction, json);
  json->Field("searched", row.searched);
  if (own != nullptr) WriteOwnKernel(*own, json);
  json->Field("pareto", row.pareto).Field("keptMin", row.kept_min).Key("keptMinSlice");
  if (row.kept_min_slice.empty()) {
    json->Null();
  } else {
    json->Value(row.kept_min_slice);
  }
  WriteBySlice(std::span(row.metrics), WriteCorrected, json);
  json->EndObject();
}

void WriteSpending(std::string_view key, const std::optional<RlClipSpending>& spent,
                   JsonWriter* json) {
  json->Key(key);
  if (!spent) {
    json->Null();
    return;
  }
  json->BeginObject().Field("meanDistance", spent->mean_distance).Field("share", spent->share);
  json->Field("tokens", spent->tokens).Field("tokensOutside", spent->tokens_outside).EndObject();
}

void WriteAdvice(const RlReplayAdvice& advice, JsonWriter* json) {
  json->Field("correctionNeeded", advice.correction_needed);
  json->Field("needReason", advice.need_reason).Field("evidence", advice.evidence);
  json->Key("clipBudget").BeginObject().Field("epsilon", advice.clip.epsilon);
  WriteSpending("together", advice.clip.together, json);
  WriteSpending("kernels", advice.clip.kernels, json);
  WriteSpending("staleness", advice.clip.staleness, json);
  json->EndObject();
  if (advice.dialect.empty()) return;
  json->Key("settings").BeginObject().Field("dialect", advice.dialect).Key("correction");
  if (advice.row < 0) {
    json->Null();
  } else {
    json->Value(advice.row);
  }
  WriteTexts("lines", advice.settings ? advice.settings->lines : std::vector<std::string>(), json);
  WriteTexts("notes", advice.settings ? advice.settings->notes : std::vector<std::string>(), json);
  json->Field("reason", advice.settings_reason).EndObject();
}

void WriteConformed(const ConformedFile& file, JsonWriter* json) {
  const ConformReport& report = file.report;
  json->BeginObject().Field("file", file.path).Field("cases", report.cases);
  json->Field("values", report.values).Field("refused", report.refused);
  json->Field("casesMissed", report.cases_missed).Key("misses").BeginArray();
  for (const ConformMiss& miss : report.misses) {
    json->BeginObject().Field("dialect", miss.dialect).Field("case", miss.case_name);
    json->Field("what", miss.what).Field("expected", miss.expected).Field("got", miss.got);
    json->EndObject();
  }
  json->EndArray().EndObject();
}

}  // namespace

RlVerdict WorstVerdict(std::span<const RlClauseVerdict> verdicts) {
  KCC_CHECK(!verdicts.empty());  // no clause, no verdict: nothing is satisfied by not being asked
  RlVerdict worst = RlVerdict::kSatisfied;
  for (const RlClauseVerdict& each : verdicts) {
    if (each.verdict == RlVerdict::kViolated) return RlVerdict::kViolated;
    if (each.verdict == RlVerdict::kInconclusive) worst = RlVerdict::kInconclusive;
  }
  return worst;
}

std::string DiagnoseJson(std::span<const RlMetrics> metrics,
                         std::span<const RlClauseVerdict> verdicts) {
  JsonWriter json;
  json.BeginObject().Field("kccRlDiagnose", kRlJsonVersion).Key("verdict");
  if (verdicts.empty()) {
    json.Null();
  } else {
    json.Value(RlVerdictName(WorstVerdict(verdicts)));
  }
  json.Key("clauses").BeginArray();
  for (const RlClauseVerdict& each : verdicts) WriteClause(each, &json);
  json.EndArray();
  json.Field("sentence", DiagnosisSentence(metrics)).Key("published").BeginArray();
  for (const PublishedComparison& each : CompareWithPublished(metrics.front())) {
    json.BeginObject().Field("source", each.bound->source).Field("metric", each.bound->metric);
    json.Field("threshold", each.bound->threshold).Field("value", each.value);
    json.Field("inside", each.inside).Field("basis", each.bound->basis).EndObject();
  }
  json.EndArray();
  WriteBySlice(metrics, WriteMetrics, &json);
  json.EndObject();
  return json.Take();
}

std::string LintJson(const RlLintReport& report, const std::vector<RlSettingFinding>* settings,
                     const std::vector<RlTrainingFinding>* training) {
  JsonWriter json;
  json.BeginObject().Field("kccRlLint", kRlJsonVersion).Field("tokens", report.tokens);
  json.Key("findings").BeginArray();
  for (const RlFinding& finding : report.findings) WriteFinding(finding, &json);
  json.EndArray().Key("features").BeginArray();
  for (const RlEvidence& e : report.features) {
    json.BeginObject().Field("name", e.name).Field("value", e.value).EndObject();
  }
  json.EndArray();
  if (settings != nullptr) {
    json.Key("settings").BeginArray();
    for (const RlSettingFinding& finding : *settings) WriteSetting(finding, &json);
    json.EndArray();
  }
  if (training != nullptr) {
    json.Key("training").BeginArray();
    for (const RlTrainingFinding& finding : *training) WriteTraining(finding, &json);
    json.EndArray();
  }
  json.EndObject();
  return json.Take();
}

std::string DialectsJson() {
  JsonWriter json;
  json.BeginObject().Field("kccRlDialects", kRlJsonVersion).Key("dialects").BeginArray();
  for (const Dialect* dialect : Dialects()) {
    json.BeginObject().Field("id", dialect->id).Field("title", dialect->title);
    json.Field("repository", dialect->repository).Field("commit", dialect->commit);
    WriteWords("aliases", dialect->aliases, &json);
    json.Key("functions").BeginArray();
    for (const DialectFunction& function : dialect->functions) {
      json.BeginObject().Field("name", function.name);
      WriteWords("options", function.options, &json);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

std::string TranslateJson(const DialectTranslation& translation) {
  JsonWriter json;
  json.BeginObject().Field("kccRlTranslate", kRlJsonVersion);
  WriteRule(translation.correction, &json);
  json.Field("complete", translation.complete);
  WriteTexts("warnings", translation.warnings, &json);
  WriteTexts("notes", translation.notes, &json);
  json.EndObject();
  return json.Take();
}

std::string CorrectJson(const RlCorrection& correction,
                        std::span<const RlCorrectionMetrics> metrics) {
  JsonWriter json;
  json.BeginObject().Field("kccRlCorrect", kRlJsonVersion);
  WriteRule(correction, &json);
  WriteBySlice(metrics, WriteCorrected, &json);
  json.EndObject();
  return json.Take();
}

std::string ReplayJson(const RlReplay& replay, const RlReplayAdvice* advice) {
  JsonWriter json;
  json.BeginObject().Field("kccRlReplay", kRlJsonVersion).Key("recommended");
  if (replay.recommended < 0) {
    json.Null();
  } else {
    json.Value(replay.recommended);
  }
  json.Field("reason", replay.reason);
  if (advice != nullptr) WriteAdvice(*advice, &json);
  json.Key("corrections").BeginArray();
  for (size_t i = 0; i < replay.rows.size(); ++i) {
    WriteReplayed(replay.rows[i], advice == nullptr ? nullptr : &advice->own[i], &json);
  }
  json.EndArray().EndObject();
  return json.Take();
}

std::string ConformJson(std::span<const ConformedFile> files) {
  JsonWriter json;
  json.BeginObject().Field("kccRlConform", kRlJsonVersion).Key("files").BeginArray();
  for (const ConformedFile& file : files) WriteConformed(file, &json);
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace kcc
