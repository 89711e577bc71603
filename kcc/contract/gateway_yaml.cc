// GatewayConfig -> the YAML a person would write: the order of the key tables, defaults left out.
// The two addresses, the stage and what is stored are written even at their defaults.
#include <utility>

#include "kcc/contract/gateway_config.h"
#include "kcc/contract/gateway_values.h"
#include "kcc/contract/policy_metadata.h"
#include "kcc/contract/values.h"
#include "kcc/contract/yaml_build.h"

namespace kcc {
namespace {

// Adds members that are not at their defaults.
class Changed {
 public:
  void AddTime(std::string key, int64_t ms, int64_t usual) {
    if (ms != usual) map_.Add(std::move(key), Time(ms));
  }
  void AddSize(std::string key, int64_t bytes, int64_t usual) {
    if (bytes != usual) map_.Add(std::move(key), YamlValue::Token(SizeText(bytes)));
  }
  void AddCount(std::string key, int64_t count, int64_t usual) {
    if (count != usual) map_.Add(std::move(key), Integer(count));
  }
  void AddValue(std::string key, YamlValue value) { map_.Add(std::move(key), std::move(value)); }
  YamlValue Take() { return std::move(map_); }

 private:
  YamlValue map_ = YamlValue::Map();
};

YamlValue FieldsOf(const GatewayConfig& config) {
  YamlValue list = YamlValue::List(kBlock);
  for (const GatewayField& field : config.fields) {
    YamlValue row = YamlValue::Map();
    row.Add("name", YamlValue::Text(field.name));
    row.Add("from", YamlValue::Text(SourceName(field.from)));
    list.Add(std::move(row));
  }
  return list;
}

YamlValue KernelsOf(const GatewayConfig& config) {
  YamlValue list = YamlValue::List(kBlock);
  for (const GatewayKernel& kernel : config.kernels) {
    YamlValue row = YamlValue::Map();
    row.Add("name", YamlValue::Text(kernel.name));
    row.Add("url", YamlValue::Text(UrlText(kernel.url)));
    row.Add("server", YamlValue::Token(kernel.server));
    AddText("model", kernel.model, &row);
    AddText("keyFile", kernel.key_file, &row);
    AddText("caFile", kernel.ca_file, &row);
    YamlValue set = YamlValue::Map();
    for (const auto& [member, json] : kernel.set) {
      const auto text = TextOfJson(json);
      set.Add(member, text ? YamlValue::Text(*text) : YamlValue::Token(json));
    }
    AddIfAny("set", std::move(set), &row);
    list.Add(std::move(row));
  }
  return list;
}

YamlValue ScoringOf(const GatewayScoring& scoring) {
  const GatewayScoring usual;
  Changed map;
  map.AddCount("top", scoring.top, usual.top);
  map.AddTime("timeout", scoring.timeout_ms, usual.timeout_ms);
  map.AddCount("inFlight", scoring.in_flight_max, usual.in_flight_max);
  map.AddCount("waiting", scoring.waiting_max, usual.waiting_max);
  if (scoring.determinism_rate != usual.determinism_rate) {
    map.AddValue("determinism", Ratio(scoring.determinism_rate));
  }
  return map.Take();
}

YamlValue DecisionLogOf(const GatewayDecisionLog& log) {
  const GatewayDecisionLog usual;
  Changed map;
  map.AddSize("fileSize", log.file_bytes, usual.file_bytes);
  map.AddCount("files", log.files_max, usual.files_max);
  return map.Take();
}

YamlValue HooksOf(const GatewayConfig& config) {
  YamlValue list = YamlValue::List(kBlock);
  for (const GatewayHook& hook : config.hooks) {
    YamlValue row = YamlValue::Map();
    row.Add("field", YamlValue::Text(hook.field));
    if (hook.kind == GatewayHookKind::kJson) {
      row.Add("json", YamlValue::Text(hook.schema_file.empty() ? "any" : hook.schema_file));
    }
    AddIfAny("phrases", TextList(hook.phrases), &row);
    AddText("exec", hook.command, &row);
    AddText("http", hook.url, &row);
    if (hook.when) row.Add("when", YamlValue::Text(hook.when->Canonical()));
    list.Add(std::move(row));
  }
  return list;
}

YamlValue LimitsOf(const GatewayLimits& limits) {
  const GatewayLimits usual;
  Changed map;
  map.AddSize("body", limits.body_bytes_max, usual.body_bytes_max);
  map.AddSize("headers", limits.header_bytes_max, usual.header_bytes_max);
  map.AddCount("connections", limits.connections_max, usual.connections_max);
  if (limits.requests_per_second_max > 0) {
    map.AddValue("requestsPerSecond", Number(limits.requests_per_second_max));
  }
  map.AddCount("retries", limits.retries_max, usual.retries_max);
  map.AddSize("answer", limits.answer_bytes_max, usual.answer_bytes_max);
  return map.Take();
}

YamlValue TimesOf(const GatewayTimes& times) {
  const GatewayTimes usual;
  Changed map;
  map.AddTime("idle", times.idle_ms, usual.idle_ms);
  map.AddTime("request", times.request_ms, usual.request_ms);
  map.AddTime("connect", times.connect_ms, usual.connect_ms);
  map.AddTime("firstByte", times.first_byte_ms, usual.first_byte_ms);
  map.AddTime("between", times.between_ms, usual.between_ms);
  map.AddTime("write", times.write_ms, usual.write_ms);
  map.AddTime("drain", times.drain_ms, usual.drain_ms);
  return map.Take();
}

YamlValue SessionOf(const GatewayConfig& config) {
  YamlValue list = YamlValue::List();
  for (const GatewaySource& source : config.session) list.Add(YamlValue::Text(SourceName(source)));
  return list;
}

YamlValue CanaryOf(const GatewayCanary& canary) {
  YamlValue map = YamlValue::Map();
  map.Add("kernel", YamlValue::Text(canary.kernel));
  map.Add("share", Ratio(canary.share));
  return map;
}

}  // namespace

std::string ToYaml(const GatewayConfig& config) {
  const GatewayConfig usual;
  YamlValue spec = YamlValue::Map(kBlock);
  spec.Add("listen", YamlValue::Text(AddressText(config.listen)));
  spec.Add("admin", YamlValue::Text(AddressText(config.admin)));
  AddText("adminToken", config.admin_token_file, &spec);
  if (config.threads != usual.threads) spec.Add("threads", Integer(config.threads));
  spec.Add("model", YamlValue::Text(config.model));
  spec.Add("contract", YamlValue::Text(config.contract_file));
  spec.Add("policy", YamlValue::Text(config.policy_file));
  AddText("register", config.register_url, &spec);
  AddText("promotion", config.promotion_file, &spec);
  if (config.state_dir != usual.state_dir) spec.Add("state", YamlValue::Text(config.state_dir));
  AddIfAny("decisionLog", DecisionLogOf(config.decision_log), &spec);
  spec.Add("stage", YamlValue::Token(Name(config.stage)));
  spec.Add("store", YamlValue::Token(Name(config.store)));
  AddIfAny("session", SessionOf(config), &spec);
  AddIfAny("fields", FieldsOf(config), &spec);
  AddIfAny("kernels", KernelsOf(config), &spec);
  if (config.canary) spec.Add("canary", CanaryOf(*config.canary));
  AddText("shadow", config.shadow, &spec);
  AddIfAny("scoring", ScoringOf(config.scoring), &spec);
  AddIfAny("hooks", HooksOf(config), &spec);
  YamlValue tls = YamlValue::Map();
  AddText("certificate", config.tls.certificate_file, &tls);
  AddText("key", config.tls.key_file, &tls);
  AddIfAny("tls", std::move(tls), &spec);
  AddText("clientKeys", config.client_keys_file, &spec);
  AddIfAny("limits", LimitsOf(config.limits), &spec);
  AddIfAny("times", TimesOf(config.times), &spec);
  YamlValue telemetry = YamlValue::Map();
  AddText("otlp", config.telemetry.otlp_url, &telemetry);
  AddText("log", config.telemetry.log_file, &telemetry);
  AddIfAny("telemetry", std::move(telemetry), &spec);
  return PolicyYaml(DocumentKind::kGateway, ViewMetadata(config), std::move(spec));
}

}  // namespace kcc
