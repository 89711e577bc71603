// Contract -> the YAML a person would write: the order of keys of docs/design.md section 4, what is
// default left out.
#include <cmath>
#include <utility>

#include "kcc/contract/canonical.h"
#include "kcc/contract/yaml_build.h"

namespace kcc {
namespace {

void AddAction(std::string_view key, Action action, Action by_default, YamlValue* map) {
  if (action != by_default) map->Add(std::string(key), YamlValue::Token(Name(action)));
}

YamlValue MetadataOf(const Contract& contract) {
  YamlValue map = YamlValue::Map(kBlock);
  map.Add("name", YamlValue::Text(contract.name));
  map.Add("version", YamlValue::Token(contract.version));
  AddText("owner", contract.owner, &map);
  AddText("description", contract.description, &map);
  if (!contract.review_by.empty()) map.Add("reviewBy", YamlValue::Text(contract.review_by));
  AddIfAny("labels", TextMap(contract.labels), &map);
  return map;
}

YamlValue BindsOf(const Contract& contract) {
  YamlValue map = YamlValue::Map(kBlock);
  AddIfAny("model", TextMap(contract.model), &map);
  AddIfAny("train", TextMap(contract.train), &map);
  AddIfAny("infer", TextMap(contract.infer), &map);
  AddText("requests", contract.request_set, &map);
  return map;
}

YamlValue AssumptionsOf(const Assumptions& assumptions) {
  YamlValue map = YamlValue::Map();
  if (assumptions.temperature != Assumptions().temperature) {
    map.Add("temperature", Number(assumptions.temperature));
  }
  if (assumptions.reward_max) map.Add("rewardMax", Number(*assumptions.reward_max));
  if (assumptions.reward_binary) map.Add("rewardBinary", YamlValue::Token("true"));
  if (assumptions.advantage_max) map.Add("advantageMax", Number(*assumptions.advantage_max));
  if (assumptions.score_norm_max) map.Add("scoreNormMax", Number(*assumptions.score_norm_max));
  if (assumptions.tokens_max) map.Add("tokensMax", Integer(*assumptions.tokens_max));
  if (assumptions.advantages != Assumptions().advantages) {
    map.Add("advantages", YamlValue::Token(Name(assumptions.advantages)));
  }
  return map;
}

YamlValue DecisionOf(const Decision& decision) {
  YamlValue map = YamlValue::Map();
  if (decision.about) map.Add("about", YamlValue::Token(Name(*decision.about)));
  if (decision.confidence != Decision().confidence) {
    map.Add("confidence", Number(decision.confidence));
  }
  return map;
}

YamlValue MetricsOf(const Contract& contract) {
  YamlValue list = YamlValue::List(kBlock);
  for (const OwnDefinition& definition : contract.metrics) {
    const OwnMetric& metric = *definition.row->own;
    YamlValue map = YamlValue::Map();
    map.Add("name", YamlValue::Text(metric.name));
    map.Add("of", YamlValue::Token(Name(metric.of)));
    map.Add("from", YamlValue::Token(YamlQuoted(metric.from.Canonical())));
    AddText("unit", std::string(Name(metric.unit)), &map);
    map.Add("direction", YamlValue::Token(Name(metric.direction)));
    if (std::isfinite(metric.min)) map.Add("min", Number(metric.min));
    if (std::isfinite(metric.max)) map.Add("max", Number(metric.max));
    AddText("version", metric.version, &map);
    AddText("doc", definition.doc, &map);
    list.Add(std::move(map));
  }
  return list;
}

YamlValue SlicesOf(const Contract& contract) {
  YamlValue list = YamlValue::List(kBlock);
  if (contract.slices.size() == 1) return list;  // `all` needs no mention
  for (const Slice& slice : contract.slices) {
    const bool everything = !slice.where.has_value();
    YamlValue map = YamlValue::Map(everything);
    map.Add("name", YamlValue::Text(slice.name));
    if (!everything) {
      map.Add("where", YamlValue::Token(YamlQuoted(slice.where->Canonical())));
    }
    list.Add(std::move(map));
  }
  return list;
}

YamlValue MinSamplesOf(const MinSamples& least) {
  YamlValue map = YamlValue::Map();
  if (least.requests != 0) map.Add("requests", Integer(least.requests));
  if (least.tokens != 0) map.Add("tokens", Integer(least.tokens));
  return map;
}

YamlValue StagesOf(const std::vector<Stage>& stages) {
  YamlValue list = YamlValue::List();
  for (const Stage stage : stages) list.Add(YamlValue::Token(Name(stage)));
  return list;
}

YamlValue ClauseOf(const Clause& clause) {
  constexpr size_t kStageCount = 4;
  YamlValue map = YamlValue::Map();
  map.Add("id", YamlValue::Text(clause.id));
  map.Add("metric", YamlValue::Token(MetricName(clause.metric)));
  map.Add(std::string(Name(clause.bound)), Number(clause.threshold));
  AddIfAny("fields", TextList(clause.fields), &map);
  if (clause.slices != std::vector<std::string>{"all"}) map.Add("slices", TextList(clause.slices));
  if (!clause.hard()) {
    map.Add("exceedance", Ratio(clause.exceedance));
    if (clause.window != Window()) map.Add("window", YamlValue::Token(WindowText(clause.window)));
  }
  map.Add("level", YamlValue::Token(Name(clause.level)));
  if (clause.action) map.Add("action", YamlValue::Token(Name(*clause.action)));
  AddIfAny("minSamples", MinSamplesOf(clause.min_samples), &map);
  if (clause.confidence) map.Add("confidence", Number(*clause.confidence));
  if (clause.stages.size() != kStageCount) map.Add("stages", StagesOf(clause.stages));
  if (clause.holdout) map.Add("holdout", YamlValue::Token("true"));
  AddText("why", clause.why, &map);
  return map;
}

YamlValue FamilyOf(const Contract& contract, Family family) {
  YamlValue list = YamlValue::List(kBlock);
  for (const Clause& clause : contract.clauses) {
    if (clause.family == family) list.Add(ClauseOf(clause));
  }
  return list;
}

YamlValue EscalationOf(const Escalation& escalation) {
  const Escalation by_default;
  YamlValue map = YamlValue::Map(kBlock);
  for (size_t i = 0; i < escalation.by_level.size(); ++i) {
    AddAction(Name(static_cast<ViolationLevel>(i)), escalation.by_level[i], by_default.by_level[i],
              &map);
  }
  YamlValue overrides = YamlValue::List(kBlock);
  for (const ActionOverride& row : escalation.overrides) {
    YamlValue entry = YamlValue::Map();
    if (row.family) entry.Add("family", YamlValue::Token(Name(*row.family)));
    if (row.level) entry.Add("level", YamlValue::Token(Name(*row.level)));
    entry.Add("action", YamlValue::Token(Name(row.action)));
    overrides.Add(std::move(entry));
  }
  AddIfAny("overrides", std::move(overrides), &map);
  AddAction("onInconclusive", escalation.on_inconclusive, by_default.on_inconclusive, &map);
  AddAction("onError", escalation.on_error, by_default.on_error, &map);
  return map;
}

}  // namespace

std::string ToYaml(const Contract& contract) {
  YamlValue spec = YamlValue::Map(kBlock);
  AddIfAny("binds", BindsOf(contract), &spec);
  YamlValue evidence = YamlValue::Map();
  AddIfAny("trust", TextList(contract.trust), &evidence);
  AddIfAny("evidence", std::move(evidence), &spec);
  AddIfAny("assumptions", AssumptionsOf(contract.assumptions), &spec);
  AddIfAny("decision", DecisionOf(contract.decision), &spec);
  AddIfAny("metrics", MetricsOf(contract), &spec);
  AddIfAny("slices", SlicesOf(contract), &spec);
  for (const Family family :
       {Family::kNumerical, Family::kStatistical, Family::kRuntime, Family::kObservability}) {
    AddIfAny(std::string(Name(family)), FamilyOf(contract, family), &spec);
  }
  AddIfAny("escalation", EscalationOf(contract.escalation), &spec);
  AddIfAny("owners", TextMap(contract.owners), &spec);

  YamlValue document = YamlValue::Map(kBlock);
  document.Add("apiVersion", YamlValue::Token("kcc/v1"));
  document.Add("kind", YamlValue::Token("KernelContract"));
  document.Add("metadata", MetadataOf(contract));
  document.Add("spec", std::move(spec));
  return WriteYaml(document);
}

}  // namespace kcc
