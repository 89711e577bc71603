// Keys are written in byte order; a test holds every object to it. What a reader would fill in is
// filled in here: a clause's confidence and action are the ones that apply to it, so writing a
// default out changes nothing. Texts that are empty and parts that bind nothing are left out.
#include "kcc/contract/canonical.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"

namespace kcc {
namespace {

template <class T>
std::vector<T> SortedUnique(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

void WriteTexts(std::string_view key, const std::vector<std::string>& texts, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string& text : SortedUnique(texts)) json->Value(text);
  json->EndArray();
}

void WriteText(std::string_view key, const std::string& text, JsonWriter* json) {
  if (!text.empty()) json->Field(key, text);
}

void WriteMap(std::string_view key, const std::map<std::string, std::string>& map,
              JsonWriter* json) {
  if (map.empty()) return;
  json->Key(key).BeginObject();
  for (const auto& [name, value] : map) json->Field(name, value);
  json->EndObject();
}

template <class T>
void WriteIfSet(std::string_view key, const std::optional<T>& value, JsonWriter* json) {
  if (value) json->Field(key, *value);
}

void WriteMetadata(const Contract& contract, JsonWriter* json) {
  json->Key("metadata").BeginObject();
  WriteText("description", contract.description, json);
  WriteMap("labels", contract.labels, json);
  json->Field("name", contract.name);
  WriteText("owner", contract.owner, json);
  WriteText("reviewBy", contract.review_by, json);
  json->Field("version", contract.version).EndObject();
}

void WriteAssumptions(const Assumptions& assumptions, JsonWriter* json) {
  json->Key("assumptions").BeginObject();
  WriteIfSet("advantageMax", assumptions.advantage_max, json);
  // Left out at its default: contracts older than the key keep their digest.
  if (assumptions.advantages != Assumptions().advantages) {
    json->Field("advantages", Name(assumptions.advantages));
  }
  if (assumptions.reward_binary) json->Field("rewardBinary", true);
  WriteIfSet("rewardMax", assumptions.reward_max, json);
  WriteIfSet("scoreNormMax", assumptions.score_norm_max, json);
  json->Field("temperature", assumptions.temperature);
  WriteIfSet("tokensMax", assumptions.tokens_max, json);
  json->EndObject();
}

void WriteBinds(const Contract& contract, JsonWriter* json) {
  if (contract.model.empty() && contract.train.empty() && contract.infer.empty() &&
      contract.request_set.empty()) {
    return;
  }
  json->Key("binds").BeginObject();
  WriteMap("infer", contract.infer, json);
  WriteMap("model", contract.model, json);
  WriteText("requests", contract.request_set, json);
  WriteMap("train", contract.train, json);
  json->EndObject();
}

void WriteDecision(const Decision& decision, JsonWriter* json) {
  json->Key("decision").BeginObject();
  if (decision.about) json->Field("about", Name(*decision.about));
  json->Field("confidence", decision.confidence).EndObject();
}

void WriteEscalation(const Escalation& escalation, JsonWriter* json) {
  json->Key("escalation").BeginObject();
  for (const ViolationLevel level :
       {ViolationLevel::kL1, ViolationLevel::kL2, ViolationLevel::kL3}) {
    json->Field(Name(level), Name(escalation.by_level[static_cast<size_t>(level)]));
  }
  json->Field("onError", Name(escalation.on_error));
  json->Field("onInconclusive", Name(escalation.on_inconclusive));
  json->Key("overrides").BeginArray();
  for (const ActionOverride& row : escalation.overrides) {
    json->BeginObject().Field("action", Name(row.action));
    if (row.family) json->Field("family", Name(*row.family));
    if (row.level) json->Field("level", Name(*row.level));
    json->EndObject();
  }
  json->EndArray().EndObject();
}

void WriteClause(const Contract& contract, const Clause& clause, JsonWriter* json) {
  json->BeginObject();
  json->Field("action", Name(ActionOf(contract.escalation, clause)));
  json->Field(Name(clause.bound), clause.threshold);
  json->Field("confidence", clause.confidence.value_or(contract.decision.confidence));
  json->Field("exceedance", clause.exceedance);
  if (!clause.fields.empty()) WriteTexts("fields", clause.fields, json);
  json->Field("holdout", clause.holdout);
  json->Field("id", clause.id);
  json->Field("level", Name(clause.level));
  json->Field("metric", MetricName(clause.metric));
  json->Key("minSamples").BeginObject();
  json->Field("requests", clause.min_samples.requests);
  json->Field("tokens", clause.min_samples.tokens).EndObject();
  WriteTexts("slices", clause.slices, json);
  json->Key("stages").BeginArray();
  for (const Stage stage : SortedUnique(clause.stages)) json->Value(Name(stage));
  json->EndArray();
  WriteText("why", clause.why, json);
  if (!clause.hard()) json->Field("window", WindowText(clause.window));
  json->EndObject();
}

void WriteFamily(const Contract& contract, Family family, JsonWriter* json) {
  std::vector<const Clause*> clauses;
  for (const Clause& clause : contract.clauses) {
    if (clause.family == family) clauses.push_back(&clause);
  }
  std::sort(clauses.begin(), clauses.end(),
            [](const Clause* a, const Clause* b) { return a->id < b->id; });
  json->Key(Name(family)).BeginArray();
  for (const Clause* clause : clauses) WriteClause(contract, *clause, json);
  json->EndArray();
}

// Left out where there are none: contracts without keep their digest.
void WriteMetrics(const Contract& contract, JsonWriter* json) {
  if (contract.metrics.empty()) return;
  std::vector<const OwnDefinition*> metrics;
  for (const OwnDefinition& definition : contract.metrics) metrics.push_back(&definition);
  std::sort(metrics.begin(), metrics.end(),
            [](const OwnDefinition* a, const OwnDefinition* b) { return a->row->id < b->row->id; });
  json->Key("metrics").BeginArray();
  for (const OwnDefinition* definition : metrics) {
    const OwnMetric& metric = *definition->row->own;
    json->BeginObject().Field("direction", Name(metric.direction));
    WriteText("doc", definition->doc, json);
    json->Field("from", metric.from.Canonical());
    if (std::isfinite(metric.max)) json->Field("max", metric.max);
    if (std::isfinite(metric.min)) json->Field("min", metric.min);
    json->Field("name", metric.name).Field("of", Name(metric.of));
    json->Field("unit", Name(metric.unit));
    WriteText("version", metric.version, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteSlices(const Contract& contract, JsonWriter* json) {
  std::vector<const Slice*> slices;
  for (const Slice& slice : contract.slices) slices.push_back(&slice);
  std::sort(slices.begin(), slices.end(),
            [](const Slice* a, const Slice* b) { return a->name < b->name; });
  json->Key("slices").BeginArray();
  for (const Slice* slice : slices) {
    json->BeginObject().Field("name", slice->name);
    if (slice->where) json->Field("where", slice->where->Canonical());
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace

std::string CanonicalJson(const Contract& contract) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("apiVersion", "kcc/v1").Field("kind", "KernelContract");
  WriteMetadata(contract, &json);
  json.Key("spec").BeginObject();
  WriteAssumptions(contract.assumptions, &json);
  WriteBinds(contract, &json);
  WriteDecision(contract.decision, &json);
  WriteEscalation(contract.escalation, &json);
  if (!contract.trust.empty()) {
    json.Key("evidence").BeginObject();
    WriteTexts("trust", contract.trust, &json);
    json.EndObject();
  }
  WriteMetrics(contract, &json);
  WriteFamily(contract, Family::kNumerical, &json);
  WriteFamily(contract, Family::kObservability, &json);
  WriteMap("owners", contract.owners, &json);
  WriteFamily(contract, Family::kRuntime, &json);
  WriteSlices(contract, &json);
  WriteFamily(contract, Family::kStatistical, &json);
  json.EndObject().EndObject();
  return json.Take();
}

std::string ContractDigest(const Contract& contract) { return Sha256Of(CanonicalJson(contract)); }

}  // namespace kcc
