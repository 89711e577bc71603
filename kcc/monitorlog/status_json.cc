#include "kcc/monitorlog/status_json.h"

#include "kcc/monitorlog/log_record.h"

namespace kcc {
namespace {

void WritePair(const PairStatus& pair, JsonWriter* json) {
  json->BeginObject().Field("clause", pair.clause).Field("slice", pair.slice);
  if (pair.of_train) json->Field("ofTrain", true);
  json->Field("verdict", Name(pair.verdict)).Field("reason", pair.reason);
  json->Field("level", pair.level).Field("recent", pair.recent).Field("limit", pair.limit);
  json->Field("observations", pair.observations).Field("alarms", pair.alarms);
  json->Field("deviation", pair.deviation).EndObject();
}

void WriteKernel(const KernelStatus& kernel, JsonWriter* json) {
  json->BeginObject().Field("name", kernel.name).Field("role", Name(kernel.role));
  json->Field("state", Name(kernel.state)).Field("verdict", Name(kernel.verdict));
  if (kernel.action) json->Field("action", Name(*kernel.action));
  if (!kernel.target.empty()) json->Field("target", kernel.target);
  json->Field("health", kernel.health).Field("eta1", kernel.eta1).Field("eta2", kernel.eta2);
  json->Field("auditRate", kernel.audit_rate).Field("served", kernel.served);
  json->Field("audited", kernel.audited).Field("strikes", kernel.strikes);
  json->Field("probationLeft", kernel.probation_left).Key("clauses").BeginArray();
  for (const PairStatus& pair : kernel.pairs) WritePair(pair, json);
  json->EndArray().EndObject();
}

}  // namespace

void WriteMonitorStatus(const MonitorStatus& status, JsonWriter* json) {
  json->BeginObject().Field("serves", status.serves).Field("panic", status.panic);
  json->Field("reason", status.reason).Field("observations", status.observations);
  json->Field("unaudited", status.unaudited).Field("duplicates", status.duplicates);
  json->Field("sessions", status.sessions).Field("late", status.late);
  json->Field("unread", status.unread);
  json->Field("detectors", status.detectors).Field("alarmLevel", status.alarm_level);
  json->Key("kernels").BeginArray();
  for (const KernelStatus& kernel : status.kernels) WriteKernel(kernel, json);
  json->EndArray().EndObject();
}

std::string DecisionJson(const MonitorDecision& decision) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("number", decision.number).Field("handling", Name(decision.handling));
  json.Field("serves", decision.serves).Key("changes").BeginArray();
  for (const MonitorChange& change : decision.changes) WriteChange(change, &json);
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace kcc
