// The template as JSON (docs/lab.md "The reporting template"); experiment_report_schema.cc says the
// same as a JSON Schema. Keys are added, never renamed.
#include "kcc/base/check.h"
#include "kcc/experiment/experiment_report.h"

namespace kcc {
namespace {

void WriteIdentity(const ExperimentReport& report, JsonWriter& json) {
  json.Key("identity").BeginObject().Key("contract").BeginObject();
  json.Field("name", report.contract.name).Field("version", report.contract.version);
  json.Field("digest", report.contract.digest).EndObject();
  json.Field("model", report.model_digest).Key("requests").BeginArray();
  for (const ReportedRequests& set : report.requests) {
    json.BeginObject().Field("name", set.name).Field("digest", set.digest);
    json.Field("requests", set.requests).Field("tokens", set.tokens).EndObject();
  }
  json.EndArray().Key("kernels").BeginArray();
  for (const ReportedKernel& kernel : report.kernels) {
    json.BeginObject().Field("name", kernel.name).Field("fingerprint", kernel.fingerprint);
    json.Key("options").BeginObject();
    for (const auto& [name, value] : kernel.options) json.Field(name, value);
    json.EndObject().EndObject();
  }
  json.EndArray().Key("arms").BeginArray();
  for (const ReportedArm& arm : report.arms) {
    json.BeginObject().Field("name", arm.name).Field("role", Name(arm.role));
    json.Field("train", arm.train).Field("infer", arm.infer).EndObject();
  }
  json.EndArray().EndObject();
}

void WriteFindings(const ExperimentReport& report, JsonWriter& json) {
  json.Key("findings").BeginArray();
  for (const Finding& finding : report.findings) {
    json.BeginObject().Field("predicted", finding.predicted).Field("seen", finding.seen);
    json.Key("holds");
    if (finding.open) {
      json.Null();
    } else {
      json.Value(finding.holds);
    }
    json.EndObject();
  }
  json.EndArray();
}

template <class T>
void OrNull(std::string_view key, const std::optional<T>& value, JsonWriter& json) {
  json.Key(key);
  if (value) {
    json.Value(*value);
  } else {
    json.Null();
  }
}

void WriteCounts(const VerdictCounts& counts, JsonWriter& json) {
  json.Field("judged", counts.judged()).Field("satisfied", counts.satisfied);
  json.Field("violated", counts.violated).Field("inconclusive", counts.inconclusive);
  json.Field("error", counts.error).Field("empty", counts.empty);
  OrNull("share", counts.share(), json);
}

void WritePart(const PassRates& rates, JsonWriter& json) {
  json.BeginObject().Key("arms").BeginArray();
  for (const ArmPass& arm : rates.arms) {
    json.BeginObject().Field("arm", arm.arm).Field("regimes", arm.regimes);
    json.Key("slices").BeginArray();
    for (const SlicePass& slice : arm.slices) {
      json.BeginObject().Field("slice", slice.slice);
      WriteCounts(slice.total(), json);
      json.Key("clauses").BeginArray();
      for (const ClausePass& clause : slice.clauses) {
        json.BeginObject().Field("clause", clause.clause);
        WriteCounts(clause.counts, json);
        json.EndObject();
      }
      json.EndArray().EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("notJudged").BeginArray();
  for (const ClauseNotJudged& clause : rates.not_judged) {
    json.BeginObject().Field("clause", clause.clause).Field("reason", clause.why).EndObject();
  }
  json.EndArray().EndObject();
}

void WriteEstimate(std::string_view key, const std::optional<Estimate>& estimate,
                   JsonWriter& json) {
  json.Key(key);
  if (!estimate) {
    json.Null();
    return;
  }
  json.BeginObject().Field("value", estimate->value).Key("interval").BeginArray();
  json.Value(estimate->interval.lo).Value(estimate->interval.hi).EndArray();
  json.Field("confidence", estimate->confidence).Field("method", estimate->method);
  json.Field("samples", estimate->samples).EndObject();
}

void WritePart(const std::vector<QualityFigure>& figures, JsonWriter& json) {
  json.BeginArray();
  for (const QualityFigure& figure : figures) {
    json.BeginObject().Field("quantity", figure.quantity).Field("unit", figure.unit);
    json.Field("arm", figure.arm).Field("slice", figure.slice);
    WriteEstimate("estimate", figure.value, json);
    WriteEstimate("delta", figure.delta, json);
    json.EndObject();
  }
  json.EndArray();
}

void WritePart(const std::vector<ArmCost>& rows, JsonWriter& json) {
  json.BeginArray();
  for (const ArmCost& row : rows) {
    json.BeginObject().Field("arm", row.arm).Field("regime", row.regime);
    json.Key("figures").BeginArray();
    for (const CostFigure& figure : row.figures) {
      json.BeginObject().Field("quantity", figure.quantity).Field("unit", figure.unit);
      json.Field("value", figure.value);
      OrNull("baseline", figure.baseline, json);
      std::optional<double> delta;
      if (figure.baseline) delta = figure.value - *figure.baseline;
      OrNull("delta", delta, json);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray();
}

void WritePart(const std::vector<IncidentFigures>& rows, JsonWriter& json) {
  json.BeginArray();
  for (const IncidentFigures& row : rows) {
    json.BeginObject().Field("arm", row.arm).Field("faults", row.faults);
    json.Field("detected", row.detected).Field("falseAlarms", row.false_alarms);
    json.Field("rollbacks", row.rollbacks);
    json.Field("rollbacksSucceeded", row.rollbacks_succeeded).Field("delayUnit", row.delay_unit);
    WriteEstimate("detectionLag", row.detection_lag, json);
    WriteEstimate("repairTime", row.repair_time, json);
    json.EndObject();
  }
  json.EndArray();
}

// Writes the parts and keeps the reasons of those that are null, which come after them.
class PartWriter {
 public:
  explicit PartWriter(JsonWriter& json) : json_(json) {}

  template <class T>
  void Write(std::string_view key, const Part<T>& part) {
    json_.Key(key);
    if (const auto* missing = std::get_if<NotMeasured>(&part)) {
      KCC_CHECK(!missing->why.empty());
      json_.Null();
      reasons_.emplace_back(key, missing->why);
    } else {
      WritePart(std::get<T>(part), json_);
    }
  }
  void WriteReasons() {
    json_.Key("notMeasured").BeginObject();
    for (const auto& [part, why] : reasons_) json_.Field(part, why);
    json_.EndObject();
  }

 private:
  JsonWriter& json_;
  std::vector<std::pair<std::string_view, std::string_view>> reasons_;
};

}  // namespace

void WriteExperimentReport(const ExperimentReport& report, JsonWriter* json) {
  json->Field("kccExperiment", kExperimentFormat).Field("experiment", report.experiment);
  if (report.preview) json->Field("preview", true);
  WriteIdentity(report, *json);
  WriteFindings(report, *json);
  PartWriter parts(*json);
  parts.Write("passRates", report.pass_rates);
  parts.Write("quality", report.quality);
  parts.Write("runtimeWork", report.work);
  parts.Write("runtimeTime", report.time);
  parts.Write("incidents", report.incidents);
  parts.WriteReasons();
}

}  // namespace kcc
