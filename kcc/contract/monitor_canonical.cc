// The canonical form of a monitor policy: keys in byte order, every default written out, times and
// sizes in their largest whole unit. Kernels stand by role, in the order that the document gives
// those of one role; that order means something, as does the order of overrides.
#include <algorithm>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/contract/policy.h"
#include "kcc/contract/policy_metadata.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

void WriteAudit(const AuditPolicy& audit, JsonWriter* json) {
  json->Key("audit").BeginObject().Field("oncePerSession", audit.once_per_session);
  json->Field("probeRate", audit.probe_rate).Field("rate", audit.rate);
  json->Field("sessionEpoch", DurationText(audit.session_epoch_ms));
  json->Field("sessionFilter", SizeText(audit.session_filter_bits / 8)).EndObject();
}

void WriteRelease(const ReleasePolicy& release, JsonWriter* json) {
  json->Key("release").BeginObject().Field("alpha", release.alpha);
  json->Field("clean", release.clean).Field("probation", release.probation);
  json->Field("rule", Name(release.rule)).Field("strikesMax", release.strikes_max).EndObject();
}

void WriteMonitorKernels(const MonitorPolicy& policy, JsonWriter* json) {
  std::vector<MonitorKernel> kernels = policy.kernels;
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const auto& a, const auto& b) { return a.role < b.role; });
  json->Key("kernels").BeginArray();
  for (const MonitorKernel& kernel : kernels) {
    json->BeginObject();
    WriteNonEmpty("fingerprint", kernel.fingerprint, json);
    json->Field("name", kernel.name).Field("role", Name(kernel.role)).EndObject();
  }
  json->EndArray();
}

void WriteRoutes(const MonitorPolicy& policy, JsonWriter* json) {
  json->Key("overrides").BeginArray();
  for (const RouteOverride& row : policy.overrides) {
    json->BeginObject();
    if (row.action) json->Field("action", Name(*row.action));
    if (row.family) json->Field("family", Name(*row.family));
    if (row.level) json->Field("level", Name(*row.level));
    WriteNonEmpty("target", row.target, json);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace

std::string CanonicalJson(const MonitorPolicy& policy) {
  JsonWriter json(JsonWriter::Style::kCompact);
  BeginPolicyJson(DocumentKind::kMonitor, ViewMetadata(policy), &json);
  WriteAudit(policy.audit, &json);
  const FalseAlarmBudget& budget = policy.false_alarms;
  if (budget.span_ms) json.Field("auditedRate", RateText(budget.rate_per_sec.value_or(0)));
  json.Field("block", policy.block_requests).Field("detector", Name(policy.detector));
  json.Field("falseAlarms", FalseAlarmsText(budget));
  WriteMonitorKernels(policy, &json);
  WriteRoutes(policy, &json);
  json.Field("panic", Name(policy.panic));
  WriteRelease(policy.release, &json);
  if (!policy.shifts.empty()) {
    json.Key("shifts").BeginArray();
    for (const double shift : policy.shifts) json.Value(shift);
    json.EndArray();
  }
  json.Field("window", policy.window_requests);
  return EndPolicyJson(&json);
}

std::string PolicyDigest(const MonitorPolicy& policy) { return Sha256Of(CanonicalJson(policy)); }

}  // namespace kcc
