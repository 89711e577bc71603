#include "kcc/report/report_json.h"

#include <cmath>
#include <map>
#include <set>

#include "kcc/judge/severity.h"
#include "kcc/metric/metric.h"
#include "kcc/report/next_steps.h"
#include "kcc/report/shown.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

// null for what was not measured; never a negative zero, which JSON readers disagree about.
void Number(double value, JsonWriter* json) {
  if (std::isnan(value)) {
    json->Null();
  } else {
    json->Value(value == 0 ? 0.0 : value);
  }
}

void NumberField(std::string_view key, double value, JsonWriter* json) {
  json->Key(key);
  Number(value, json);
}

void IntervalField(std::string_view key, const Interval& interval, JsonWriter* json) {
  json->Key(key);
  if (!interval.known()) {
    json->Null();
    return;
  }
  json->BeginArray();
  Number(interval.lo, json);
  Number(interval.hi, json);
  json->EndArray();
}

void OptionalField(std::string_view key, const std::optional<double>& value, JsonWriter* json) {
  NumberField(key, value.value_or(kNotMeasured), json);
}

void OptionalField(std::string_view key, const std::optional<int64_t>& value, JsonWriter* json) {
  json->Key(key);
  if (value) {
    json->Value(*value);
  } else {
    json->Null();
  }
}

void WriteTotals(const VerdictTotals& totals, JsonWriter* json) {
  json->BeginObject();
  for (const Verdict verdict :
       {Verdict::kViolated, Verdict::kError, Verdict::kInconclusive, Verdict::kSatisfied}) {
    json->Field(Name(verdict), totals.of(verdict));
  }
  json->EndObject();
}

void WriteExceedance(const std::optional<ExceedanceCount>& exceedance, JsonWriter* json) {
  json->Key("exceedance");
  if (!exceedance) {
    json->Null();
    return;
  }
  json->BeginObject();
  json->Field("windows", exceedance->windows).Field("exceeding", exceedance->exceeding);
  NumberField("rate", exceedance->rate(), json);
  NumberField("budget", exceedance->budget, json);
  json->EndObject();
}

void WriteSlice(const ClauseVerdict& clause, const SliceVerdict& slice, Population other,
                JsonWriter* json) {
  json->BeginObject();
  json->Field("slice", slice.slice).Field("verdict", Name(slice.verdict()));
  NumberField("value", slice.value.exact() ? slice.value.lo : kNotMeasured, json);
  IntervalField("interval", slice.value, json);
  NumberField("threshold", slice.threshold, json);
  WriteExceedance(slice.exceedance, json);
  json->Key("count").BeginObject();
  json->Field("requests", slice.count.requests).Field("tokens", slice.count.tokens);
  json->EndObject();
  json->Field("reason", slice.about.reason);
  OptionalField("smallestPassing", slice.smallest_passing, json);
  OptionalField("smallestBudget", slice.smallest_budget, json);
  IntervalField("confidenceInterval", slice.about.confidence_interval, json);
  OptionalField("moreRequests", slice.about.more_requests, json);
  json->Key("other").BeginObject();
  json->Field("about", Name(other)).Field("verdict", Name(slice.other.verdict));
  json->Field("reason", slice.other.reason);
  IntervalField("confidenceInterval", slice.other.confidence_interval, json);
  OptionalField("moreRequests", slice.other.more_requests, json);
  json->EndObject();
  OptionalField("severity", Severity(clause, slice), json);
  NumberField("deviation", slice.deviation, json);
  NumberField("weight", slice.weight, json);
  json->EndObject();
}

constexpr std::string_view kTrain = "train_";

using OwnLabels = std::vector<OwnLabel>;

const OwnLabel* FindLabel(const OwnLabels& own, std::string_view id) {
  const auto found =
      std::find_if(own.begin(), own.end(), [&](const OwnLabel& label) { return label.id == id; });
  return found == own.end() ? nullptr : &*found;
}

// "train_kl" of a metric's name, and its aggregate; a metric this build does not know, and the
// report has no label of, has none.
struct MetricParts {
  std::string quantity;
  std::string aggregate;
};

std::optional<MetricParts> PartsOf(const std::string& name, const OwnLabels& own) {
  if (const auto metric = ParseMetric(name)) {
    std::string quantity = metric->side == Side::kTrain ? std::string(kTrain) : "";
    return MetricParts{quantity.append(metric->quantity->id),
                       std::string(AggregateName(metric->aggregate))};
  }
  const size_t underscore = name.find('_');
  if (underscore == std::string::npos) return std::nullopt;
  MetricParts parts{name.substr(underscore + 1), name.substr(0, underscore)};
  const bool train = parts.quantity.starts_with(kTrain);
  const std::string_view id = parts.quantity;
  if (FindLabel(own, train ? id.substr(kTrain.size()) : id) == nullptr) return std::nullopt;
  return parts;
}

// One verdict on one line: where there are thousands, indentation would be most of the file.
std::string SliceLine(const ClauseVerdict& clause, const SliceVerdict& slice, Population other) {
  JsonWriter line(JsonWriter::Style::kCompact);
  WriteSlice(clause, slice, other, &line);
  std::string text = line.Take();
  text.pop_back();  // the line feed
  return text;
}

void WriteClause(const ClauseVerdict& clause, const ReportData& report, Population other,
                 bool spread, JsonWriter* json) {
  json->BeginObject();
  json->Field("id", clause.id).Field("family", Name(clause.family));
  json->Field("metric", clause.metric);
  if (const auto parts = PartsOf(clause.metric, report.own)) {
    json->Field("quantity", parts->quantity);
    json->Field("aggregate", parts->aggregate);
  }
  json->Field("bound", Name(clause.bound)).Field("level", Name(clause.level));
  json->Field("hard", clause.hard).Field("action", Name(clause.action));
  json->Field("verdict", Name(clause.verdict));
  json->Field("line", clause.mark.line).Field("column", clause.mark.column);
  if (const std::string why = ReasonOf(report, clause.id); !why.empty()) json->Field("why", why);
  json->Key("slices").BeginArray();
  for (const SliceVerdict& slice : clause.slices) {
    if (spread) {
      WriteSlice(clause, slice, other, json);
    } else {
      json->Raw(SliceLine(clause, slice, other));
    }
  }
  json->EndArray();
  json->EndObject();
}

// The violated pair to look at first, and what to do about it. Made from the rest, as headline is.
void WriteWhatNow(const ReportData& report, const Judgement& counted, JsonWriter* json) {
  if (const std::optional<WorstPair> worst = FindWorstPair(counted)) {
    json->Key("worstPair").BeginObject();
    json->Field("clause", worst->clause->id).Field("slice", worst->slice->slice);
    OptionalField("factor", worst->factor, json);
    json->Field("text", WorstText(counted)).EndObject();
  }
  const std::vector<NextStep> steps = NextSteps(report);
  if (steps.empty()) return;
  json->Key("next").BeginArray();
  for (const NextStep& step : steps) {
    json->BeginObject().Field("name", step.name).Field("question", step.question);
    json->Field("command", step.command).EndObject();
  }
  json->EndArray();
}

void WriteSlices(const std::vector<ReportSlice>& slices, JsonWriter* json) {
  if (slices.empty()) return;
  json->Key("slices").BeginArray();
  for (const ReportSlice& slice : slices) {
    json->BeginObject().Field("name", slice.name).Field("where", slice.where).EndObject();
  }
  json->EndArray();
}

// `counted` is what the totals and the headline speak of: the report's own judgement, or the one of
// which the report's is what a page shows.
void WriteJudgement(const ReportData& report, const Judgement& counted, JsonWriter* json) {
  const Judgement& judgement = report.judgement;
  const Population other =
      judgement.about == Population::kTraffic ? Population::kEvaluationSet : Population::kTraffic;
  json->Field("verdict", Name(judgement.verdict)).Field("convergent", judgement.convergent);
  NumberField("health", judgement.health, json);
  json->Key("thresholds").BeginArray();
  Number(judgement.eta1, json);
  Number(judgement.eta2, json);
  json->EndArray();
  json->Field("action", ActionText(judgement));
  json->Field("actionMeaning", ActionMeaning(judgement));
  json->Field("about", Name(judgement.about)).Field("stage", Name(judgement.stage));
  NumberField("confidence", judgement.confidence, json);
  json->Field("headline", Headline(counted)).Field("healthText", HealthText(judgement));
  if (!judgement.warnings.empty()) {
    json->Key("warnings").BeginArray();
    for (const std::string& warning : judgement.warnings) json->Value(std::string_view(warning));
    json->EndArray();
  }
  json->Key("totals").BeginObject().Key("clauses");
  WriteTotals(CountClauses(counted), json);
  json->Key("pairs");
  const VerdictTotals pairs = CountPairs(counted);
  WriteTotals(pairs, json);
  json->EndObject();
  json->Key("clauses").BeginArray();
  const bool spread = pairs.all() <= static_cast<int64_t>(kSpreadPairsMax);
  for (const ClauseVerdict& clause : judgement.clauses) {
    WriteClause(clause, report, other, spread, json);
  }
  json->EndArray();
}

void WriteStatistics(const QuantityStatistics& statistics, JsonWriter* json) {
  json->BeginObject();
  json->Field("count", statistics.count);
  NumberField("mean", statistics.mean, json);
  NumberField("min", statistics.min, json);
  NumberField("max", statistics.max, json);
  NumberField("p50", statistics.p50, json);
  NumberField("p90", statistics.p90, json);
  NumberField("p95", statistics.p95, json);
  NumberField("p99", statistics.p99, json);
  NumberField("p999", statistics.p999, json);
  json->EndObject();
}

void WriteHistogram(const ReportHistogram& histogram, JsonWriter* json) {
  json->BeginObject().Key("edges").BeginArray();
  for (const double edge : histogram.edges) Number(edge, json);
  json->EndArray().Key("counts").BeginArray();
  for (const int64_t count : histogram.counts) json->Value(count);
  json->EndArray().Field("infinite", histogram.infinite).EndObject();
}

// {"kl": {"all": …, "safety": …}, …}: objects by quantity, then slice, in the order of the rows'
// first appearance; of two rows with the same quantity and slice the first counts.
template <class Row, class Write>
void WriteByQuantity(std::string_view key, const std::vector<Row>& rows, Write write,
                     JsonWriter* json) {
  std::vector<std::string_view> quantities;
  std::map<std::string_view, std::vector<const Row*>> by_quantity;
  for (const Row& row : rows) {
    auto& group = by_quantity[row.quantity];
    if (group.empty()) quantities.push_back(row.quantity);
    group.push_back(&row);
  }
  json->Key(key).BeginObject();
  for (const std::string_view quantity : quantities) {
    json->Key(quantity).BeginObject();
    std::set<std::string_view> seen;
    for (const Row* row : by_quantity[quantity]) {
      if (!seen.insert(row->slice).second) continue;
      json->Key(row->slice);
      write(*row, json);
    }
    json->EndObject();
  }
  json->EndObject();
}

// Unit, direction and definition of every quantity the report shows, from the catalog.
void WriteLabels(const ReportData& report, JsonWriter* json) {
  std::set<std::string> names;
  for (const QuantitySlice& row : report.quantities) names.insert(row.quantity);
  for (const ReportHistogram& row : report.histograms) names.insert(row.quantity);
  for (const WorstToken& row : report.worst) names.insert(row.quantity);
  for (const ClauseVerdict& clause : report.judgement.clauses) {
    if (auto parts = PartsOf(clause.metric, report.own)) names.insert(std::move(parts->quantity));
  }
  json->Key("labels").BeginObject();
  const auto write = [&](std::string_view name, const OwnLabel& label) {
    json->Key(name).BeginObject();
    json->Field("unit", label.unit).Field("direction", label.direction);
    json->Field("level", label.level).Field("definition", label.definition);
    json->EndObject();
  };
  for (const std::string_view name : names) {
    const std::string_view id = name.starts_with(kTrain) ? name.substr(kTrain.size()) : name;
    if (const Quantity* quantity = FindQuantity(id)) {
      write(name, LabelOf(*quantity));
    } else if (const OwnLabel* label = FindLabel(report.own, id)) {
      write(name, *label);
    }
  }
  json->EndObject();
}

void WriteCurves(const std::vector<DisagreementCurve>& curves, JsonWriter* json) {
  json->Key("curves").BeginArray();
  for (const DisagreementCurve& curve : curves) {
    json->BeginObject();
    json->Field("slice", curve.slice).Field("tokens", curve.tokens);
    json->Key("points").BeginArray();
    for (const DisagreementPoint& point : curve.points) {
      json->BeginObject();
      NumberField("margin", point.margin, json);
      json->Field("tokens", point.tokens).Field("top1", point.top1).Field("top5", point.top5);
      json->EndObject();
    }
    json->EndArray().EndObject();
  }
  json->EndArray();
}

void WriteWorst(const std::vector<WorstToken>& worst, JsonWriter* json) {
  json->Key("worst").BeginArray();
  for (const WorstToken& row : worst) {
    json->BeginObject();
    json->Field("quantity", row.quantity).Field("slice", row.slice);
    NumberField("value", row.value, json);
    json->Field("request", row.request).Field("position", row.position).Field("token", row.token);
    if (row.context) json->Field("context", *row.context);
    if (!row.tags.empty()) {
      json->Key("tags").BeginArray();
      for (const std::string& tag : row.tags) json->Value(tag);
      json->EndArray();
    }
    json->EndObject();
  }
  json->EndArray();
}

void WriteInputs(const ReportInputs& inputs, JsonWriter* json) {
  if (inputs.train.empty() && inputs.infer.empty() && inputs.requests.empty()) return;
  json->Key("inputs").BeginObject();
  json->Field("train", inputs.train).Field("infer", inputs.infer);
  json->Field("requests", inputs.requests).EndObject();
}

void WriteKernel(std::string_view key, const KernelProvenance& kernel, const std::string& input,
                 JsonWriter* json) {
  json->Key(key).BeginObject();
  json->Field("name", KernelName(kernel, input));
  json->Field("fingerprint", kernel.fingerprint).Field("trace", kernel.trace);
  json->Field("model", kernel.model);
  json->EndObject();
}

void WriteProvenance(const ReportData& report, JsonWriter* json) {
  const Provenance& provenance = report.provenance;
  json->Key("provenance").BeginObject();
  json->Field("kcc", provenance.kcc);
  WriteKernel("train", provenance.train, report.inputs.train, json);
  WriteKernel("infer", provenance.infer, report.inputs.infer, json);
  json->Field("evidence", provenance.evidence).Field("plan", provenance.plan);
  json->Field("requests", provenance.requests);
  if (!provenance.backend.empty()) json->Field("backend", provenance.backend);
  json->EndObject();
}

// `markdown` is for the page alone, which offers it to be copied.
std::string Json(const ReportData& report, const Judgement& counted, const ReportFiles& files,
                 JsonWriter::Style style, std::string_view markdown = {}) {
  JsonWriter json(style);
  json.BeginObject();
  json.Field("kccReport", kReportFormat);
  json.Key("contract").BeginObject();
  json.Field("name", report.contract.name).Field("version", report.contract.version);
  json.Field("digest", report.contract.digest).Field("file", report.contract.file);
  json.EndObject();
  WriteJudgement(report, counted, &json);
  WriteSlices(report.slices, &json);
  WriteWhatNow(report, counted, &json);
  const auto statistics = [](const QuantitySlice& row, JsonWriter* out) {
    WriteStatistics(row.statistics, out);
  };
  WriteByQuantity("quantities", report.quantities, statistics, &json);
  WriteByQuantity("histograms", report.histograms, WriteHistogram, &json);
  WriteLabels(report, &json);
  WriteCurves(report.curves, &json);
  WriteWorst(report.worst, &json);
  if (!report.worst_kept.empty()) json.Field("worstKept", report.worst_kept);
  json.Key("bounds").BeginArray();
  for (const ImpliedBound& bound : report.bounds) {
    json.BeginObject().Field("clause", bound.clause).Field("text", bound.text);
    NumberField("value", bound.value, &json);
    json.Field("quantity", bound.quantity).Field("vacuous", bound.vacuous);
    if (bound.exceedance > 0) json.Field("exceedance", bound.exceedance);
    json.EndObject();
  }
  json.EndArray();
  if (report.slices_without_detail > 0) {
    json.Field("slicesWithoutDetail", report.slices_without_detail);
  }
  WriteInputs(report.inputs, &json);
  WriteProvenance(report, &json);
  if (!files.empty()) {
    json.Key("files").BeginObject();
    for (const auto& [name, digest] : files) json.Field(name, digest);
    json.EndObject();
  }
  if (!markdown.empty()) json.Field("markdown", markdown);
  json.EndObject();
  return json.Take();
}

}  // namespace

std::string ReportJson(const ReportData& report, JsonWriter::Style style) {
  return Json(report, report.judgement, {}, style);
}

std::string ReportJson(const ReportData& report, const ReportFiles& files) {
  return Json(report, report.judgement, files, JsonWriter::Style::kPretty);
}

bool IsReportJson(std::string_view bytes) {
  return WithoutBlanks(bytes.substr(0, 256)).starts_with("{\"kccReport\":");
}

std::string PageJson(const ReportData& shown, const Judgement& all, std::string_view markdown) {
  return Json(shown, all, {}, JsonWriter::Style::kCompact, markdown);
}

}  // namespace kcc
