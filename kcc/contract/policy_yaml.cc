// PromotionPolicy -> the YAML a person would write: the order of the key tables, defaults left out.
#include <utility>

#include "kcc/contract/policy.h"
#include "kcc/contract/policy_metadata.h"
#include "kcc/contract/yaml_build.h"

namespace kcc {
namespace {

YamlValue LooksOf(const StagePolicy& stage) {
  YamlValue list = YamlValue::List(kBlock);
  for (const Look& look : stage.looks) {
    YamlValue row = YamlValue::Map();
    row.Add("requests", Integer(look.requests));
    if (!stage.spending) row.Add("alpha", Ratio(look.alpha));
    list.Add(std::move(row));
  }
  return list;
}

YamlValue StepsOf(const StagePolicy& stage) {
  YamlValue list = YamlValue::List(kBlock);
  for (const CanaryStep& step : stage.steps) {
    YamlValue row = YamlValue::Map();
    row.Add("traffic", Ratio(step.traffic));
    if (step.min_requests != stage.min_requests) {
      row.Add("minRequests", Integer(step.min_requests));
    }
    if (step.stability_ms != stage.stability_ms) {
      row.Add("stabilityWindow", Time(step.stability_ms));
    }
    list.Add(std::move(row));
  }
  return list;
}

YamlValue StageOf(const StagePolicy& stage) {
  YamlValue map = YamlValue::Map(kBlock);
  const StagePolicy usual;
  AddIfAny("steps", StepsOf(stage), &map);
  if (stage.mirror != usual.mirror) map.Add("mirror", Ratio(stage.mirror));
  if (!stage.clauses.empty()) {
    map.Add("clauses", TextList(stage.clauses));
  } else {
    // Written even where it is the default: what counts is the heart of a stage.
    YamlValue levels = YamlValue::List();
    for (const ViolationLevel level : stage.levels) levels.Add(YamlValue::Token(Name(level)));
    map.Add("levels", std::move(levels));
  }
  if (stage.min_requests != 0) map.Add("minRequests", Integer(stage.min_requests));
  if (stage.stability_ms != 0) map.Add("stabilityWindow", Time(stage.stability_ms));
  if (stage.clean) map.Add("clean", Integer(*stage.clean));
  if (stage.deadline_ms) {
    map.Add("deadline", Time(*stage.deadline_ms));
    if (stage.on_deadline != usual.on_deadline) {
      map.Add("onDeadline", YamlValue::Token(Name(stage.on_deadline)));
    }
  }
  if (stage.approvals.count > 0) {
    YamlValue approvals = YamlValue::Map();
    approvals.Add("count", Integer(stage.approvals.count));
    AddIfAny("roles", TextList(stage.approvals.roles), &approvals);
    if (stage.approvals.must_sign) approvals.Add("signed", YamlValue::Token("true"));
    if (!stage.approvals.keyring.empty()) {
      approvals.Add("keyring", YamlValue::Text(stage.approvals.keyring));
    }
    map.Add("approvals", std::move(approvals));
  }
  AddIfAny("looks", LooksOf(stage), &map);
  if (stage.spending) map.Add("spending", YamlValue::Token(Name(*stage.spending)));
  return map;
}

YamlValue HooksOf(const PromotionPolicy& policy) {
  YamlValue list = YamlValue::List(kBlock);
  for (const PolicyHook& hook : policy.hooks) {
    YamlValue row = YamlValue::Map();
    row.Add("point", YamlValue::Token(Name(hook.point)));
    row.Add("name", YamlValue::Text(hook.name));
    AddText("exec", hook.exec, &row);
    AddText("http", hook.http, &row);
    if (hook.timeout_ms != PolicyHook().timeout_ms) row.Add("timeout", Time(hook.timeout_ms));
    list.Add(std::move(row));
  }
  return list;
}

YamlValue StorageOf(const RequestStorage& storage) {
  const RequestStorage usual;
  YamlValue map = YamlValue::Map();
  map.Add("store", YamlValue::Token(Name(storage.store)));
  if (!storage.flagged) map.Add("flagged", YamlValue::Token("false"));
  if (storage.sample != usual.sample) map.Add("sample", Ratio(storage.sample));
  if (storage.retention_ms) map.Add("retention", Time(*storage.retention_ms));
  if (storage.text) map.Add("text", YamlValue::Token("true"));
  return map;
}

}  // namespace

std::string ToYaml(const PromotionPolicy& policy) {
  const PromotionPolicy usual;
  YamlValue spec = YamlValue::Map(kBlock);
  if (policy.confidence != usual.confidence) spec.Add("confidence", Number(policy.confidence));
  if (policy.cool_down_ms != usual.cool_down_ms) spec.Add("coolDown", Time(policy.cool_down_ms));
  for (const Stage stage : kStages) {
    if (policy.stage(stage).in_force) {
      spec.Add(std::string(Name(stage)), StageOf(policy.stage(stage)));
    }
  }
  YamlValue enforce = YamlValue::List(kBlock);
  for (const EnforceRule& rule : policy.enforce) {
    YamlValue row = YamlValue::Map();
    row.Add("clause", YamlValue::Text(rule.clause));
    // In quotes: to some readers of YAML a bare on or off is a boolean.
    row.Add("mode", rule.mode == Enforce::kShadow ? YamlValue::Token(Name(rule.mode))
                                                  : YamlValue::Text(Name(rule.mode)));
    enforce.Add(std::move(row));
  }
  AddIfAny("enforce", std::move(enforce), &spec);
  AddIfAny("hooks", HooksOf(policy), &spec);
  if (policy.requests != usual.requests) spec.Add("requests", StorageOf(policy.requests));

  return PolicyYaml(DocumentKind::kPromotion, ViewMetadata(policy), std::move(spec));
}

}  // namespace kcc
