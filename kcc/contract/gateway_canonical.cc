// The canonical form of a gateway: keys in byte order, every default written out, times and sizes
// in their largest whole unit. Order is kept where it means something: of `session`, and of the
// hooks of one field, the first that fits is taken.
#include <algorithm>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/contract/gateway_config.h"
#include "kcc/contract/policy_metadata.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

template <class Row>
std::vector<const Row*> ByName(const std::vector<Row>& rows) {
  std::vector<const Row*> sorted;
  sorted.reserve(rows.size());
  for (const Row& row : rows) sorted.push_back(&row);
  std::sort(sorted.begin(), sorted.end(),
            [](const Row* a, const Row* b) { return a->name < b->name; });
  return sorted;
}

void WriteFields(const GatewayConfig& config, JsonWriter* json) {
  json->Key("fields").BeginArray();
  for (const GatewayField* field : ByName(config.fields)) {
    json->BeginObject().Field("from", SourceName(field->from));
    json->Field("name", field->name).EndObject();
  }
  json->EndArray();
}

void WriteGraders(const GatewayConfig& config, JsonWriter* json) {
  std::vector<GatewayHook> hooks = config.hooks;
  std::stable_sort(hooks.begin(), hooks.end(),
                   [](const auto& a, const auto& b) { return a.field < b.field; });
  json->Key("hooks").BeginArray();
  for (const GatewayHook& hook : hooks) {
    json->BeginObject();
    WriteNonEmpty("exec", hook.command, json);
    json->Field("field", hook.field);
    WriteNonEmpty("http", hook.url, json);
    if (hook.kind == GatewayHookKind::kJson) {
      json->Field("json", hook.schema_file.empty() ? "any" : hook.schema_file);
    }
    if (!hook.phrases.empty()) {
      std::vector<std::string> phrases = hook.phrases;
      std::sort(phrases.begin(), phrases.end());
      json->Key("phrases").BeginArray();
      for (const std::string& phrase : phrases) json->Value(phrase);
      json->EndArray();
    }
    if (hook.when) json->Field("when", hook.when->Canonical());
    json->EndObject();
  }
  json->EndArray();
}

void WriteKernels(const GatewayConfig& config, JsonWriter* json) {
  json->Key("kernels").BeginArray();
  for (const GatewayKernel* kernel : ByName(config.kernels)) {
    json->BeginObject();
    WriteNonEmpty("caFile", kernel->ca_file, json);
    WriteNonEmpty("keyFile", kernel->key_file, json);
    WriteNonEmpty("model", kernel->model, json);
    json->Field("name", kernel->name).Field("server", kernel->server);
    if (!kernel->set.empty()) {
      json->Key("set").BeginObject();
      for (const auto& [member, value] : kernel->set) json->Key(member).Raw(value);
      json->EndObject();
    }
    json->Field("url", UrlText(kernel->url)).EndObject();
  }
  json->EndArray();
}

void WriteLimits(const GatewayLimits& limits, JsonWriter* json) {
  json->Key("limits").BeginObject().Field("answer", SizeText(limits.answer_bytes_max));
  json->Field("body", SizeText(limits.body_bytes_max)).Field("connections", limits.connections_max);
  json->Field("headers", SizeText(limits.header_bytes_max));
  if (limits.requests_per_second_max > 0) {
    json->Field("requestsPerSecond", limits.requests_per_second_max);
  }
  json->Field("retries", limits.retries_max).EndObject();
}

void WriteScoring(const GatewayScoring& scoring, JsonWriter* json) {
  json->Key("scoring").BeginObject().Field("determinism", scoring.determinism_rate);
  json->Field("inFlight", scoring.in_flight_max);
  json->Field("timeout", DurationText(scoring.timeout_ms));
  json->Field("top", scoring.top).Field("waiting", scoring.waiting_max).EndObject();
}

void WriteTimes(const GatewayTimes& times, JsonWriter* json) {
  json->Key("times").BeginObject().Field("between", DurationText(times.between_ms));
  json->Field("connect", DurationText(times.connect_ms));
  json->Field("drain", DurationText(times.drain_ms));
  json->Field("firstByte", DurationText(times.first_byte_ms));
  json->Field("idle", DurationText(times.idle_ms));
  json->Field("request", DurationText(times.request_ms));
  json->Field("write", DurationText(times.write_ms)).EndObject();
}

}  // namespace

std::string CanonicalJson(const GatewayConfig& config) {
  JsonWriter json(JsonWriter::Style::kCompact);
  BeginPolicyJson(DocumentKind::kGateway, ViewMetadata(config), &json);
  json.Field("admin", AddressText(config.admin));
  WriteNonEmpty("adminToken", config.admin_token_file, &json);
  if (config.canary) {
    json.Key("canary").BeginObject().Field("kernel", config.canary->kernel);
    json.Field("share", config.canary->share).EndObject();
  }
  WriteNonEmpty("clientKeys", config.client_keys_file, &json);
  json.Field("contract", config.contract_file);
  if (config.decision_log != GatewayDecisionLog()) {
    json.Key("decisionLog").BeginObject();
    json.Field("fileSize", SizeText(config.decision_log.file_bytes));
    json.Field("files", config.decision_log.files_max).EndObject();
  }
  WriteFields(config, &json);
  WriteGraders(config, &json);
  WriteKernels(config, &json);
  WriteLimits(config.limits, &json);
  json.Field("listen", AddressText(config.listen)).Field("model", config.model);
  json.Field("policy", config.policy_file);
  WriteNonEmpty("promotion", config.promotion_file, &json);
  WriteNonEmpty("register", config.register_url, &json);
  WriteScoring(config.scoring, &json);
  if (!config.session.empty()) {
    json.Key("session").BeginArray();
    for (const GatewaySource& source : config.session) json.Value(SourceName(source));
    json.EndArray();
  }
  WriteNonEmpty("shadow", config.shadow, &json);
  json.Field("stage", Name(config.stage)).Field("state", config.state_dir);
  json.Field("store", Name(config.store));
  if (config.telemetry != GatewayTelemetry()) {
    json.Key("telemetry").BeginObject();
    WriteNonEmpty("log", config.telemetry.log_file, &json);
    WriteNonEmpty("otlp", config.telemetry.otlp_url, &json);
    json.EndObject();
  }
  json.Field("threads", config.threads);
  WriteTimes(config.times, &json);
  if (config.tls != GatewayTls()) {
    json.Key("tls").BeginObject().Field("certificate", config.tls.certificate_file);
    json.Field("key", config.tls.key_file).EndObject();
  }
  return EndPolicyJson(&json);
}

std::string GatewayDigest(const GatewayConfig& config) { return Sha256Of(CanonicalJson(config)); }

}  // namespace kcc
