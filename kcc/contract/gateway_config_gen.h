// Test only: gateways with a given part, and random ones.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

#include "kcc/contract/draws_gen.h"
#include "kcc/contract/gateway_reader.h"
#include "kcc/contract/hostile_text_gen.h"

namespace kcc {

// Nine lines; what follows is on line 10.
inline constexpr std::string_view kGatewayHead =
    "apiVersion: kcc/v1\n"
    "kind: Gateway\n"
    "metadata: {name: lab, version: 1.0.0}\n"
    "spec:\n"
    "  model: m\n"
    "  contract: contract.yaml\n"
    "  policy: policy.yaml\n"
    "  kernels: [{name: fp8, url: \"http://127.0.0.1:8000\", server: vllm},\n"
    "            {name: int8, url: \"http://127.0.0.1:8001\", server: vllm}]\n";

// With every part, in the standard order.
inline constexpr std::string_view kWholeGateway = R"(apiVersion: kcc/v1
kind: Gateway
metadata:
  name: lab
  version: 1.0.0
spec:
  # every network of this machine
  listen: "0.0.0.0:8080"
  admin: "[::1]:8081"
  adminToken: admin.token
  threads: 4
  model: kcc-lab
  contract: contract.yaml
  policy: policy.yaml
  register: "sqlite:kcc.db"
  promotion: promotion.yaml
  stage: canary
  store: full
  session: ["header:x-session-id", "body:user"]
  fields:
    - {name: tags, from: "header:x-kcc-tags"}
  kernels:
    - {name: fp8, url: "http://127.0.0.1:8000", server: vllm}  # what clients get
    - {name: int8, url: "https://k.example:443", server: sglang, model: m2, keyFile: k.txt, caFile: c.pem, set: {temperature: 0}}
  canary: {kernel: int8, share: 5%}
  shadow: int8
  scoring: {timeout: 3s}
  hooks:
    # answers that must be JSON
    - {field: parsed, json: schema.json, when: "'json' in tags"}
    - {field: refused, phrases: ["I can't", I cannot]}
    - {field: reward, exec: python3 grade.py}
    - {field: tone, http: "http://127.0.0.1:9000/grade"}
  tls: {certificate: cert.pem, key: key.pem}
  clientKeys: keys.txt
  limits: {requestsPerSecond: 100}
  times: {drain: 10s}
  telemetry: {otlp: "http://127.0.0.1:4318", log: gateway.log}
)";

inline GatewayOutcome ReadGatewayRest(const std::string& rest) {
  return ReadGateway(std::string(kGatewayHead) + rest);
}

inline GatewayConfig ValidGateway(const std::string& rest) {
  const GatewayOutcome outcome = ReadGatewayRest(rest);
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    if (diagnostic.kind != DiagnosticKind::kError) continue;
    ADD_FAILURE() << diagnostic.code << ": " << diagnostic.message;
  }
  return outcome.config.value_or(GatewayConfig());
}

// Hostile to YAML, and of one line, as files and commands are.
inline std::string DrawLine() {
  std::string text = *GenHostileText();
  std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  return text.empty() ? "x" : text;
}

inline GatewayKernel DrawKernel(const std::string& name, uint16_t port) {
  GatewayKernel kernel;
  kernel.name = name;
  kernel.url = {Flip(), Pick<std::string>({"127.0.0.1", "kernels.example", "::1"}), port};
  kernel.server = std::string(Pick<std::string_view>({"vllm", "sglang", "llamacpp", "trtllm"}));
  if (Flip()) kernel.model = DrawLine();
  if (Flip()) kernel.key_file = DrawLine();
  if (kernel.url.tls && Flip()) kernel.ca_file = DrawLine();
  if (Flip()) kernel.set["temperature"] = Pick<std::string>({"0", "0.7", "1e-09", "-3"});
  if (Flip()) kernel.set["seed"] = "18446744073709551615";
  if (Flip())
    kernel.set[Pick<std::string>({"NO", "a: b", "#", "\xC3\xBC", "\"", "~"})] =
        Pick<std::string>({"true", "false", "\"0\"", "\"a\\nb\""});
  return kernel;
}

inline GatewayHook DrawHook(const std::string& field) {
  GatewayHook hook;
  hook.field = field;
  hook.kind = field == "reward"
                  ? Pick<GatewayHookKind>({GatewayHookKind::kExec, GatewayHookKind::kHttp})
                  : Word<GatewayHookKind>(4);
  switch (hook.kind) {
    case GatewayHookKind::kJson:
      if (Flip()) hook.schema_file = DrawLine();
      break;
    case GatewayHookKind::kPhrases:
      hook.phrases = {DrawLine() + "1", DrawLine() + "2"};
      break;
    case GatewayHookKind::kExec:
      hook.command = DrawLine();
      break;
    case GatewayHookKind::kHttp:
      hook.url = Pick<std::string>({"http://127.0.0.1:9000/grade", "https://g.example/?a=b"});
      break;
  }
  if (Flip()) hook.when = *Predicate::Parse("'json' in tags and prompt_tokens >= 8");
  return hook;
}

inline void DrawNumbers(GatewayConfig* config) {
  config->scoring = {Pick<int64_t>({0, 20, 1000}), Pick<int64_t>({1, 2000, 3'600'000}),
                     Pick<int64_t>({1, 64}), Pick<int64_t>({1, 256}),
                     Pick<double>({0, 0.01, 0.123456789, 1})};
  config->limits = {Pick<int64_t>({1024, 8 << 20}), Pick<int64_t>({1024, 16 << 10, 16'385}),
                    Pick<int64_t>({1, 4096}),       Pick<double>({0, 0.5, 100}),
                    Pick<int64_t>({0, 1, 8}),       Pick<int64_t>({1025, 16 << 20})};
  for (int64_t* ms : {&config->times.idle_ms, &config->times.request_ms, &config->times.connect_ms,
                      &config->times.first_byte_ms, &config->times.between_ms,
                      &config->times.write_ms, &config->times.drain_ms}) {
    if (Flip()) *ms = Pick<int64_t>({1, 999, 60'000, 86'400'000});
  }
}

inline GatewayConfig DrawGateway() {
  GatewayConfig config;
  config.name = "g-1";
  config.version = "0.1.2";
  if (Flip()) config.description = *GenHostileText();
  if (Flip()) config.labels = {{"team", *GenHostileText()}};
  config.listen = {Pick<std::string>({"127.0.0.1", "0.0.0.0", "::", "host-1.example"}),
                   Pick<uint16_t>({0, 1, 8080, 65535})};
  config.admin = {Pick<std::string>({"127.0.0.1", "localhost", "::1", "127.8.9.10"}),
                  Pick<uint16_t>({0, 8081})};
  if (Flip()) config.admin_token_file = DrawLine();
  config.threads = Pick<int64_t>({1, 2, 64});
  config.model = DrawLine();
  config.contract_file = DrawLine();
  config.policy_file = DrawLine();
  if (Flip()) config.register_url = Pick<std::string>({"sqlite:kcc.db", "postgresql://h/d"});
  if (!config.register_url.empty() && Flip()) config.promotion_file = DrawLine();
  config.state_dir = Pick<std::string>({"state", "/var/lib/kcc"});
  if (Flip()) config.decision_log = {Pick<int64_t>({1024, 1025}), Pick<int64_t>({1, 16})};
  config.stage = Pick<Stage>({Stage::kCanary, Stage::kFull});
  config.store = Word<StoreRequests>(3);
  if (Flip()) config.session = {{true, "x-session-id"}, {false, "metadata.user"}};
  config.fields = {{"tags", {true, "x-kcc-tags"}, {}}, {"seed", {false, "seed"}, {}}};
  config.kernels = {DrawKernel("b", 8000), DrawKernel("a", 8001), DrawKernel("c", 8002)};
  if (Flip()) config.canary = GatewayCanary{"a", Pick<double>({0, 0.05, 1})};
  if (Flip()) config.shadow = "c";
  DrawNumbers(&config);
  for (const std::string field : {"parsed", "refused", "reward", "own"}) {
    if (Flip()) config.hooks.push_back(DrawHook(field));
  }
  if (Flip()) config.tls = {DrawLine(), DrawLine()};
  if (Flip()) config.client_keys_file = DrawLine();
  if (Flip()) config.telemetry = {"http://127.0.0.1:4318", DrawLine()};
  return config;
}

}  // namespace kcc
