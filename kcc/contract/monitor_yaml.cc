// MonitorPolicy -> the YAML a person would write: the order of the key tables, defaults left out.
// The shares, the rule and the numbers that decide are written even at their defaults.
#include <utility>

#include "kcc/contract/monitor_policy.h"
#include "kcc/contract/policy_metadata.h"
#include "kcc/contract/values.h"
#include "kcc/contract/yaml_build.h"

namespace kcc {
namespace {

YamlValue AuditOf(const AuditPolicy& audit) {
  const AuditPolicy usual;
  YamlValue map = YamlValue::Map();
  map.Add("rate", Ratio(audit.rate));
  map.Add("probeRate", Ratio(audit.probe_rate));
  if (!audit.once_per_session) map.Add("oncePerSession", YamlValue::Token("false"));
  if (audit.session_epoch_ms != usual.session_epoch_ms) {
    map.Add("sessionEpoch", Time(audit.session_epoch_ms));
  }
  if (audit.session_filter_bits != usual.session_filter_bits) {
    map.Add("sessionFilter", YamlValue::Token(SizeText(audit.session_filter_bits / 8)));
  }
  return map;
}

YamlValue ReleaseOf(const ReleasePolicy& release) {
  const ReleasePolicy usual;
  YamlValue map = YamlValue::Map();
  map.Add("rule", YamlValue::Token(Name(release.rule)));
  map.Add("alpha", Ratio(release.alpha));
  if (release.strikes_max != usual.strikes_max) {
    map.Add("strikesMax", Integer(release.strikes_max));
  }
  map.Add("clean", Integer(release.clean));
  map.Add("probation", Integer(release.probation));
  return map;
}

YamlValue RoutesOf(const MonitorPolicy& policy) {
  YamlValue list = YamlValue::List(kBlock);
  for (const RouteOverride& route : policy.overrides) {
    YamlValue row = YamlValue::Map();
    if (route.family) row.Add("family", YamlValue::Token(Name(*route.family)));
    if (route.level) row.Add("level", YamlValue::Token(Name(*route.level)));
    if (route.action) row.Add("action", YamlValue::Token(Name(*route.action)));
    AddText("target", route.target, &row);
    list.Add(std::move(row));
  }
  return list;
}

YamlValue KernelsOf(const MonitorPolicy& policy) {
  YamlValue list = YamlValue::List(kBlock);
  for (const MonitorKernel& kernel : policy.kernels) {
    YamlValue row = YamlValue::Map();
    row.Add("name", YamlValue::Text(kernel.name));
    row.Add("role", YamlValue::Token(Name(kernel.role)));
    AddText("fingerprint", kernel.fingerprint, &row);
    list.Add(std::move(row));
  }
  return list;
}

}  // namespace

std::string ToYaml(const MonitorPolicy& policy) {
  const MonitorPolicy usual;
  const FalseAlarmBudget& budget = policy.false_alarms;
  YamlValue spec = YamlValue::Map(kBlock);
  spec.Add("falseAlarms", YamlValue::Token(FalseAlarmsText(budget)));
  if (budget.span_ms) {
    spec.Add("auditedRate", YamlValue::Token(RateText(budget.rate_per_sec.value_or(0))));
  }
  if (policy.detector != usual.detector) {
    spec.Add("detector", YamlValue::Token(Name(policy.detector)));
  }
  YamlValue shifts = YamlValue::List();
  for (const double shift : policy.shifts) shifts.Add(Number(shift));
  AddIfAny("shifts", std::move(shifts), &spec);
  if (policy.window_requests != usual.window_requests) {
    spec.Add("window", Integer(policy.window_requests));
  }
  if (policy.block_requests != usual.block_requests) {
    spec.Add("block", Integer(policy.block_requests));
  }
  spec.Add("audit", AuditOf(policy.audit));
  spec.Add("release", ReleaseOf(policy.release));
  spec.Add("panic", YamlValue::Token(Name(policy.panic)));
  AddIfAny("overrides", RoutesOf(policy), &spec);
  AddIfAny("kernels", KernelsOf(policy), &spec);
  return PolicyYaml(DocumentKind::kMonitor, ViewMetadata(policy), std::move(spec));
}

}  // namespace kcc
