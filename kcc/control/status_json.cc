// GET /v1/status and /v1/health (docs/gateway-api.md).
#include "kcc/base/json_writer.h"
#include "kcc/contract/contract.h"
#include "kcc/control/gateway_now.h"
#include "kcc/metric/metric.h"
#include "kcc/monitorlog/log_files.h"

namespace kcc {
namespace {

constexpr int kApiVersion = 1;

void WriteDocument(std::string_view key, const DocumentName& document, JsonWriter* json) {
  json->Key(key).BeginObject().Field("name", document.name).Field("version", document.version);
  json->Field("digest", document.digest).EndObject();
}

int64_t Since(const GatewayNow& now, const std::string& what) {
  const auto found = now.view->since_ms.find(what);
  return found == now.view->since_ms.end() ? now.facts->started_ms : found->second;
}

void WriteRoute(const GatewayNow& now, JsonWriter* json) {
  const RoutePlan& plan = now.view->plan;
  json->Key("route").BeginObject().Key("serves");
  plan.serves.empty() ? json->Null() : json->Value(plan.serves);
  json->Key("canary");
  plan.canary.empty() ? json->Null() : json->Value(plan.canary);
  json->Field("share", plan.canary_share).Field("since", Since(now, ""));
  json->Field("panic", plan.panic).Field("reason", plan.reason).EndObject();
}

void WritePair(const GatewayNow& now, const PairStatus& pair, JsonWriter* json) {
  json->BeginObject().Field("clause", pair.clause).Field("slice", pair.slice);
  if (pair.of_train) json->Field("ofTrain", true);
  if (const Clause* clause = now.facts->contract_document.FindClause(pair.clause)) {
    json->Field("clauseLevel", Name(clause->level)).Field("metric", MetricName(clause->metric));
    json->Field("family", Name(clause->family)).Field("hard", clause->hard());
  }
  json->Field("verdict", Name(pair.verdict)).Field("reason", pair.reason);
  json->Field("level", pair.level).Field("recent", pair.recent).Field("limit", pair.limit);
  json->Field("observations", pair.observations).Field("alarms", pair.alarms);
  json->Field("deviation", pair.deviation).EndObject();
}

void WriteKernel(const GatewayNow& now, const KernelStatus& kernel, JsonWriter* json) {
  json->BeginObject().Field("name", kernel.name).Field("role", Name(kernel.role));
  json->Field("state", Name(kernel.state)).Field("verdict", Name(kernel.verdict));
  json->Field("health", kernel.health).Field("eta1", kernel.eta1).Field("eta2", kernel.eta2);
  json->Key("action");
  kernel.action ? json->Value(Name(*kernel.action)) : json->Null();
  json->Field("target", kernel.target);
  json->Field("share", now.view->plan.ShareOfKernel(kernel.name));
  json->Field("since", Since(now, kernel.name)).Field("auditRate", kernel.audit_rate);
  json->Field("served", kernel.served).Field("audited", kernel.audited);
  json->Field("strikes", kernel.strikes).Field("probationLeft", kernel.probation_left);
  const auto build = now.builds.find(kernel.name);
  json->Field("build", build == now.builds.end() ? std::string() : build->second);
  const EvidenceAge age = now.EvidenceOf(kernel.name);
  json->Key("evidenceAtMs");
  age.newest_ms ? json->Value(*age.newest_ms) : json->Null();
  json->Field("stale", age.stale ? WhyStale(age, now.at_ms) : std::string());
  if (const KernelCountsNow* counts = now.FindCounts(kernel.name)) {
    json->Field("fingerprint", counts->fingerprint).Field("sent", counts->sent);
    json->Field("answered", counts->answered).Field("failed", counts->failed);
    json->Field("cut", counts->cut).Field("sampled", counts->sampled);
    json->Field("dropped", counts->dropped).Field("unasked", counts->unasked);
    json->Field("strangers", counts->strangers);
  }
  json->Key("pairs").BeginArray();
  for (const PairStatus& pair : kernel.pairs) WritePair(now, pair, json);
  json->EndArray().EndObject();
}

void WriteRates(const GatewayNow& now, JsonWriter* json) {
  json->Key("rates").BeginObject().Field("requestsPerSecond", now.requests_per_second);
  json->Field("came", now.counts.came).Field("refused", now.counts.refused);
  json->Field("own", now.counts.own).Field("retried", now.counts.retried);
  json->Field("left", now.counts.left).Field("underWay", now.counts.under_way);
  json->Field("unauditable", now.counts.unauditable);
  json->Field("bytesIn", now.counts.bytes_in).Field("bytesOut", now.counts.bytes_out);
  json->Field("sampled", now.counts.sampled()).Field("scored", now.scorer.scored);
  json->Field("lost", now.scorer.lost + now.view->lost).Field("dropped", now.counts.dropped());
  json->Field("unasked", now.scorer.unasked + now.counts.unasked());
  json->Field("timedOut", now.scorer.timed_out).Field("refusedByScorer", now.scorer.refused);
  json->Field("waiting", now.scorer.waiting).Key("reasons").BeginObject();
  for (const auto& [reason, count] : now.scorer.reasons) json->Field(reason, count);
  json->EndObject().EndObject();
}

void WriteEvaluator(const GatewayNow& now, JsonWriter* json) {
  const EvaluatorView& view = *now.view;
  json->Key("evaluator").BeginObject().Field("state", EvaluatorState(now));
  json->Field("silentSeconds", now.silent_s).Field("lagSeconds", now.lag_s);
  json->Field("queued", now.queued).Field("waitingForLog", view.waiting);
  json->Field("lost", view.lost).Field("logErrors", view.log_errors);
  json->Field("logFileError", view.log_file_fault);
  json->Field("logError", view.log_error).Field("logHead", view.log_head);
  json->Field("observations", view.status.observations).Field("unread", view.status.unread);
  json->Field("duplicates", view.status.duplicates).Field("sessions", view.status.sessions);
  json->Field("late", view.status.late).Field("resumed", view.resumed);
  json->Field("detectors", view.status.detectors).Field("alarmLevel", view.status.alarm_level);
  json->Field("eventErrors", now.event_errors);
  json->Field("registerWarning", now.register_warning);
  json->Field("registerError", now.register_error).EndObject();
  const RoutePlan& plan = view.plan;
  json->Key("sampling").BeginObject().Field("auditShare", plan.audit_share);
  json->Field("probed", plan.probed).Field("probeShare", plan.probe_share);
  json->Field("shadow", view.wishes.shadow).EndObject();
  json->Key("plane").BeginObject().Field("connections", now.plane.connections);
  json->Field("accepted", now.plane.accepted).Field("overLimit", now.plane.over_limit);
  json->Field("badRequests", now.plane.bad_requests).Field("withoutKey", now.plane.without_key);
  json->Field("rateLimited", now.plane.rate_limited).EndObject();
}

// The gateways at one register; null where there is none that several may have.
void WritePeers(const GatewayNow& now, JsonWriter* json) {
  json->Key("peers");
  if (!now.peers) {
    json->Null();
    return;
  }
  const PeersNow& peers = *now.peers;
  json->BeginObject().Field("decides", peers.decides).Field("gateway", peers.gateway);
  json->Field("instance", peers.instance).Field("self", peers.self).Field("term", peers.term);
  json->Field("since", peers.since_ms).Field("event", peers.event).Field("error", peers.error);
  json->Field("held", peers.held).Field("waiting", peers.waiting).Field("lost", peers.lost);
  json->Key("followers").BeginArray();
  for (const PeerNow& follower : peers.followers) {
    json->BeginObject().Field("gateway", follower.gateway).Field("instance", follower.instance);
    json->Field("ageMs", follower.age_ms).EndObject();
  }
  json->EndArray().EndObject();
}

void WriteRisk(const GatewayNow& now, JsonWriter* json) {
  json->Key("risk").BeginArray();
  for (const RiskSample& sample : now.risk) {
    json->BeginObject()
        .Field("atMs", sample.at_ms)
        .Field("serves", sample.serves)
        .Key("kernels")
        .BeginArray();
    for (const RiskSample::Kernel& kernel : sample.kernels) {
      json->BeginObject().Field("name", kernel.name).Field("health", kernel.health);
      json->Field("level", kernel.level).EndObject();
    }
    json->EndArray().EndObject();
  }
  json->EndArray();
}

void WritePromotion(const GatewayNow& now, JsonWriter* json) {
  json->Key("promotion");
  if (!now.promotion) {
    json->Null();
    return;
  }
  const PromotionNow& promotion = *now.promotion;
  json->BeginObject().Field("name", promotion.id).Field("stage", promotion.phase);
  json->Field("share", promotion.share).Field("reason", promotion.reason);
  if (!promotion.error.empty()) json->Field("error", promotion.error);
  json->Key("missing").BeginArray();
  for (const std::string& missing : promotion.missing) json->Value(missing);
  json->EndArray().EndObject();
}

// The log as a shell takes it: names sort in the order of the files.
std::string LogFiles(const std::string& path) {
  if (SetAsideFiles(path).empty()) return path;
  const size_t dot = path.rfind('.');
  return path.substr(0, dot) + "*" + path.substr(dot);
}

// What guarded a kernel, with the command that decides the log again to see it.
void WriteIncidents(const GatewayNow& now, JsonWriter* json) {
  const std::string log = LogFiles(now.facts->log_path);
  json->Key("incidents").BeginArray();
  for (const HistoryEntry& entry : now.history) {
    const bool bad = entry.kind == "alarm" || entry.kind == "proof" || entry.kind == "broken" ||
                     entry.kind == "panic";
    if (!bad) continue;
    json->BeginObject().Field("id", std::to_string(entry.number)).Field("atMs", entry.at_ms);
    json->Field("kind", entry.kind).Field("kernel", entry.kernel).Field("clause", entry.clause);
    json->Field("slice", entry.slice).Field("reason", entry.reason);
    json->Field("request", entry.request);
    json->Field("replayCommand", "kcc monitor replay " + log + " --contract " +
                                     now.facts->contract_path + " --policy " +
                                     now.facts->policy_path);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace

std::string StatusJson(const GatewayNow& now) {
  JsonWriter json(JsonWriter::Style::kCompact);
  const GatewayFacts& facts = *now.facts;
  json.BeginObject().Field("kccGateway", kApiVersion).Field("atMs", now.at_ms);
  json.Field("startedAtMs", facts.started_ms).Field("kcc", facts.kcc_version);
  WriteDocument("contract", facts.contract, &json);
  WriteDocument("policy", facts.policy, &json);
  WriteDocument("config", facts.config, &json);
  json.Field("model", facts.model).Field("stage", Name(facts.stage)).Field("url", facts.url);
  json.Field("store", facts.store);
  WriteRoute(now, &json);
  json.Key("kernels").BeginArray();
  for (const KernelStatus& kernel : now.view->status.kernels) WriteKernel(now, kernel, &json);
  json.EndArray();
  json.Key("history").BeginArray();
  for (const HistoryEntry& entry : now.history) WriteEntry(entry, &json);
  json.EndArray();
  WriteRisk(now, &json);
  WriteRates(now, &json);
  WriteEvaluator(now, &json);
  WritePeers(now, &json);
  WritePromotion(now, &json);
  WriteIncidents(now, &json);
  std::string text = json.EndObject().Take();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string HealthJson(const GatewayNow& now) {
  JsonWriter json(JsonWriter::Style::kCompact);
  const RoutePlan& plan = now.view->plan;
  json.BeginObject().Field("kccGateway", kApiVersion).Field("atMs", now.at_ms);
  WriteRoute(now, &json);
  json.Key("kernels").BeginArray();
  for (const KernelStatus& kernel : now.view->status.kernels) {
    json.BeginObject().Field("name", kernel.name).Field("state", Name(kernel.state));
    json.Field("verdict", Name(kernel.verdict)).Field("health", kernel.health);
    json.Field("eta1", kernel.eta1).Field("eta2", kernel.eta2);
    json.Field("share", plan.ShareOfKernel(kernel.name)).EndObject();
  }
  return json.EndArray().Field("evaluator", EvaluatorState(now)).EndObject().Take();
}

}  // namespace kcc
