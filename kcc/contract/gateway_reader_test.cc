// Documents of gateways: what is read, and mistakes with their code and place.
#include "kcc/contract/gateway_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kcc/contract/gateway_config_gen.h"
#include "kcc/contract/gateway_values.h"
#include "kcc/contract/keys.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "line:column code" of what is of the kind.
std::vector<std::string> Placed(const GatewayOutcome& outcome, DiagnosticKind kind) {
  std::vector<std::string> placed;
  for (const Diagnostic& row : outcome.diagnostics) {
    if (row.kind != kind) continue;
    placed.push_back(std::to_string(row.mark.line) + ":" + std::to_string(row.mark.column) + " " +
                     row.code);
  }
  return placed;
}

TEST(ReadGateway, ReadsWhatItIsTold) {
  const GatewayOutcome outcome = ReadGateway(kWholeGateway);
  EXPECT_TRUE(outcome.diagnostics.empty());
  ASSERT_TRUE(outcome.config);
  const GatewayConfig& config = *outcome.config;
  EXPECT_EQ(config.listen, (GatewayAddress{"0.0.0.0", 8080}));
  EXPECT_EQ(config.admin, (GatewayAddress{"::1", 8081}));
  EXPECT_EQ(config.admin_token_file, "admin.token");
  EXPECT_EQ(config.threads, 4);
  EXPECT_EQ(config.stage, Stage::kCanary);
  EXPECT_EQ(config.store, StoreRequests::kFull);
  EXPECT_EQ(config.register_url, "sqlite:kcc.db");
  EXPECT_EQ(config.state_dir, "state");
  ASSERT_EQ(config.session.size(), 2u);
  EXPECT_EQ(config.session[0], (GatewaySource{true, "x-session-id"}));
  EXPECT_EQ(config.session[1], (GatewaySource{false, "user"}));
  ASSERT_EQ(config.fields.size(), 1u);
  ASSERT_EQ(config.kernels.size(), 2u);
  const GatewayKernel& kernel = *config.FindKernel("int8");
  EXPECT_EQ(kernel.url, (GatewayUrl{true, "k.example", 443}));
  EXPECT_EQ(kernel.server, "sglang");
  EXPECT_THAT(kernel.set,
              ElementsAre(std::pair<const std::string, std::string>{"temperature", "0"}));
  EXPECT_EQ(config.canary, (GatewayCanary{"int8", 0.05}));
  EXPECT_EQ(config.shadow, "int8");
  EXPECT_EQ(config.scoring.timeout_ms, 3000);
  EXPECT_EQ(config.scoring.top, GatewayScoring().top);
  ASSERT_EQ(config.hooks.size(), 4u);
  EXPECT_EQ(config.hooks[0].schema_file, "schema.json");
  EXPECT_EQ(config.hooks[0].when->Canonical(), "'json' in tags");
  EXPECT_THAT(config.hooks[1].phrases, ElementsAre("I can't", "I cannot"));
  EXPECT_EQ(config.hooks[2].kind, GatewayHookKind::kExec);
  EXPECT_EQ(config.hooks[3].url, "http://127.0.0.1:9000/grade");
  EXPECT_EQ(config.limits.requests_per_second_max, 100);
  EXPECT_EQ(config.times.drain_ms, 10'000);
  EXPECT_EQ(config.telemetry.otlp_url, "http://127.0.0.1:4318");
  EXPECT_EQ(config.FindKernel("fp4"), nullptr);
}

TEST(ReadGateway, HasTheDefaultsThatTheTablesState) {
  const GatewayConfig usual = ValidGateway("");
  const auto stated = [](const char* table, const char* key) {
    return KeyOf(TableOf(table), key).default_text;
  };
  EXPECT_EQ(stated("gatewaySpec", "listen"), AddressText(usual.listen));
  EXPECT_EQ(stated("gatewaySpec", "admin"), AddressText(usual.admin));
  EXPECT_EQ(stated("gatewaySpec", "threads"), std::to_string(usual.threads));
  EXPECT_EQ(stated("gatewaySpec", "state"), usual.state_dir);
  EXPECT_EQ(stated("gatewaySpec", "stage"), Name(usual.stage));
  EXPECT_EQ(stated("gatewaySpec", "store"), Name(usual.store));
  EXPECT_EQ(stated("scoringRule", "top"), std::to_string(usual.scoring.top));
  EXPECT_EQ(ReadDuration(stated("scoringRule", "timeout")).value(), usual.scoring.timeout_ms);
  EXPECT_EQ(stated("scoringRule", "inFlight"), std::to_string(usual.scoring.in_flight_max));
  EXPECT_EQ(stated("scoringRule", "waiting"), std::to_string(usual.scoring.waiting_max));
  EXPECT_EQ(ReadRatio(stated("scoringRule", "determinism")).value(),
            usual.scoring.determinism_rate);
  EXPECT_EQ(ReadSize(stated("decisionLogRule", "fileSize")).value(), usual.decision_log.file_bytes);
  EXPECT_EQ(stated("decisionLogRule", "files"), std::to_string(usual.decision_log.files_max));
  const auto size = [&](const char* key) { return ReadSize(stated("gatewayLimits", key)).value(); };
  EXPECT_EQ(size("body"), usual.limits.body_bytes_max);
  EXPECT_EQ(size("headers"), usual.limits.header_bytes_max);
  EXPECT_EQ(size("answer"), usual.limits.answer_bytes_max);
  EXPECT_EQ(stated("gatewayLimits", "connections"), std::to_string(usual.limits.connections_max));
  EXPECT_EQ(stated("gatewayLimits", "retries"), std::to_string(usual.limits.retries_max));
  const auto time = [&](const char* key) {
    return ReadDuration(stated("gatewayTimes", key)).value();
  };
  EXPECT_EQ(time("idle"), usual.times.idle_ms);
  EXPECT_EQ(time("request"), usual.times.request_ms);
  EXPECT_EQ(time("connect"), usual.times.connect_ms);
  EXPECT_EQ(time("firstByte"), usual.times.first_byte_ms);
  EXPECT_EQ(time("between"), usual.times.between_ms);
  EXPECT_EQ(time("write"), usual.times.write_ms);
  EXPECT_EQ(time("drain"), usual.times.drain_ms);
}

TEST(ReadGateway, KnowsTheWordsOfItsEnums) {
  const KeyRow& stage = KeyOf(TableOf("gatewaySpec"), "stage");
  for (size_t i = 0; i < stage.words.size(); ++i) {
    const GatewayConfig config =
        ValidGateway("  stage: " + std::string(stage.words[i]) + "\n  shadow: int8\n");
    EXPECT_EQ(Name(config.stage), stage.words[i]);
  }
  const MappingTable& hook = TableOf("gradeHook");
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(KeyOf(hook, Name(static_cast<GatewayHookKind>(i))).name,
              Name(static_cast<GatewayHookKind>(i)));
  }
}

TEST(ReadGateway, SaysWhatIsWrongAndWhere) {
  struct Case {
    std::string rest;    // from line 10 on
    std::string placed;  // line:column code
  };
  const std::vector<Case> cases = {
      {"  listn: 127.0.0.1:1\n", "10:3 unknown-key"},
      {"  threads: 0\n", "10:12 out-of-range"},
      {"  threads: 2.5\n", "10:12 bad-number"},
      {"  adminToken: ''\n", "10:15 empty-text"},
      {"  adminToken: \"a\\nb\"\n", "10:15 control-character"},
      {"  stage: offline\n", "10:10 unknown-word"},
      {"  stage: shadow\n  shadow: int8\n  canary: {kernel: int8, share: 1%}\n",
       "12:3 canary-in-shadow"},
      {"  store: all\n", "10:10 unknown-word"},
      {"  promotion: p.yaml\n", "10:3 promotion-without-register"},
      {"  session: x-session-id\n", "10:12 wrong-type"},
      {"  session: []\n", "10:12 empty-list"},
      {"  session: [[a]]\n", "10:13 wrong-type"},
      {"  session: [user]\n", "10:13 bad-source"},
      {"  session: [\"header:A\", \"header:a\"]\n", "10:25 duplicate-item"},
      {"  fields: [{name: t, from: \"body:a.b.c\"}]\n", "10:28 bad-source"},
      {"  fields: [{name: a-b, from: \"body:a\"}]\n", "10:19 bad-field"},
      {"  fields: [{name: and, from: \"body:a\"}]\n", "10:19 bad-field"},
      {"  fields: [{name: reward, from: \"body:a\"}]\n", "10:19 not-asked"},
      {"  fields: [{name: latency_ms, from: \"body:a\"}]\n", "10:19 not-asked"},
      {"  fields: [{name: t, from: \"body:a\"}, {name: t, from: \"body:b\"}]\n",
       "10:46 duplicate-id"},
      {"  shadow: int4\n", "10:11 unknown-kernel"},
      {"  canary: {kernel: int9, share: 5%}\n", "10:20 unknown-kernel"},
      {"  canary: {kernel: int8, share: 5}\n", "10:33 out-of-range"},
      {"  canary: {kernel: int8}\n", "10:11 missing-key"},
      {"  decisionLog: {fileSize: 1}\n", "10:27 bad-size"},
      {"  decisionLog: {files: 0}\n", "10:24 out-of-range"},
      {"  scoring: {top: -1}\n", "10:18 out-of-range"},
      {"  scoring: {timeout: 0s}\n", "10:22 out-of-range"},
      {"  scoring: {timeout: 2}\n", "10:22 bad-duration"},
      {"  scoring: {determinism: 101%}\n", "10:26 out-of-range"},
      {"  tls: {certificate: c.pem}\n", "10:8 missing-key"},
      {"  limits: {body: 1B}\n", "10:18 out-of-range"},
      {"  limits: {headers: 2MiB}\n", "10:21 out-of-range"},
      {"  limits: {requestsPerSecond: 0}\n", "10:31 out-of-range"},
      {"  limits: {retries: 9}\n", "10:21 out-of-range"},
      {"  times: {idle: 0s}\n", "10:17 out-of-range"},
      {"  times: {connect: 25h}\n", "10:20 out-of-range"},
      {"  times: {drain: soon}\n", "10:18 bad-duration"},
      {"  telemetry: {otlp: \"http://c:4318/v1/traces\"}\n", "10:21 path-in-url"},
  };
  for (const Case& one : cases) {
    const GatewayOutcome outcome = ReadGatewayRest(one.rest);
    EXPECT_THAT(Placed(outcome, DiagnosticKind::kError), ElementsAre(one.placed)) << one.rest;
    EXPECT_FALSE(outcome.config) << one.rest;
  }
}

TEST(ReadGateway, AsksForAddressesThatMeanOneThing) {
  struct Case {
    std::string rest;
    std::string placed;
    std::string words;  // in the message or the hint
  };
  const std::vector<Case> cases = {
      {"  listen: 8080\n", "10:11 bad-address", "or 0.0.0.0:8080 for every network"},
      {"  listen: \":8080\"\n", "10:11 bad-address", "or 0.0.0.0:8080 for every network"},
      {"  listen: 127.0.0.1\n", "10:11 bad-address", "it names no port"},
      {"  listen: \"http://127.0.0.1:1\"\n", "10:11 bad-address", "without http://"},
      {"  listen: \"::1:8080\"\n", "10:11 bad-address", "in brackets, such as [::1]:8080"},
      {"  listen: \"[::1:8080\"\n", "10:11 bad-address", "write HOST:PORT"},
      {"  listen: \"[::x]:8080\"\n", "10:11 bad-address", "write HOST:PORT"},
      {"  listen: 127.0.0.1:65536\n", "10:11 bad-address", "write HOST:PORT"},
      {"  listen: 127.0.0.256:80\n", "10:11 bad-address", "write HOST:PORT"},
      {"  listen: 127.1:80\n", "10:11 bad-address", "write HOST:PORT"},
      {"  listen: a b:80\n", "10:11 bad-address", "write HOST:PORT"},
      {"  admin: 0.0.0.0:8081\n", "10:10 admin-not-loopback", "write '127.0.0.1:8081'"},
      {"  admin: 127.example.org:8081\n", "10:10 admin-not-loopback", "of this machine alone"},
      {"  admin: 127.0.0.1:8080\n", "10:10 same-port", "a port of its own"},
      {"  listen: 10.0.0.1:8081\n", "10:11 same-port", "a port of its own"},
      {"  register: \"mysql://h/d\"\n", "10:13 bad-register", "write sqlite:FILE or postgresql://"},
      {"  register: \"sqlite://kcc.db\"\n", "10:13 bad-register", "write sqlite:FILE"},
      {"  register: \"sqlite:\"\n", "10:13 bad-register", "write sqlite:FILE"},
      {"  register: \"postgres://u:secret@h/d\"\n", "10:13 bad-register", "holds a password"},
      {"  register: \"postgresql://h/d?a=b&PASSWORD=x\"\n", "10:13 bad-register",
       "holds a password"},
  };
  for (const Case& one : cases) {
    const GatewayOutcome outcome = ReadGatewayRest(one.rest);
    EXPECT_THAT(Placed(outcome, DiagnosticKind::kError), ElementsAre(one.placed)) << one.rest;
    ASSERT_FALSE(outcome.diagnostics.empty()) << one.rest;
    const Diagnostic& said = outcome.diagnostics[0];
    EXPECT_THAT(said.message + "; " + said.hint, HasSubstr(one.words)) << one.rest;
    EXPECT_THAT(said.message, ::testing::Not(HasSubstr("secret"))) << one.rest;
  }
  EXPECT_EQ(ValidGateway("  listen: LocalHost:0\n").listen, (GatewayAddress{"localhost", 0}));
  EXPECT_EQ(ValidGateway("  listen: \"[0:0::1]:1\"\n").listen, (GatewayAddress{"::1", 1}));
  EXPECT_EQ(ValidGateway("  listen: 127.0.0.1:0\n  admin: 127.0.0.1:0\n").admin.port, 0);
  EXPECT_EQ(ValidGateway("  register: kcc.db\n").register_url, "sqlite:kcc.db");
}

TEST(ReadGateway, AsksForKernelsThatCanBeAsked) {
  struct Case {
    std::string kernel;  // from column 14 of line 8
    std::string placed;
    std::string words;
  };
  const std::string url = "url: \"http://127.0.0.1:8000\"";
  const std::vector<Case> cases = {
      {"{name: a, " + url + "}", "8:13 missing-key", "has no key 'server'"},
      {"{name: a, " + url + ", server: lab}", "8:61 unknown-word", "write vllm"},
      {"{name: a, " + url + ", server: vlm}", "8:61 unknown-word", "did you mean 'vllm'?"},
      {"{name: a, url: \"127.0.0.1:8000\", server: vllm}", "8:28 bad-url",
       "write http://HOST:PORT"},
      {"{name: a, url: \"HTTP://h:1\", server: vllm}", "8:28 bad-url", "write http://HOST:PORT"},
      {"{name: a, url: \"http://h:0\", server: vllm}", "8:28 bad-url", "write http://HOST:PORT"},
      {"{name: a, url: \"http://:80\", server: vllm}", "8:28 bad-url", "write http://HOST:PORT"},
      {"{name: a, url: \"http://h:1#x\", server: vllm}", "8:28 bad-url", "leave out what follows"},
      {"{name: a, url: \"http://h:1/a b\", server: vllm}", "8:28 bad-url", "%20"},
      {"{name: a, url: \"http://u:secret@h:1\", server: vllm}", "8:28 bad-url",
       "put keys into files"},
      {"{name: a, url: \"http://h:1/api\", server: vllm}", "8:28 path-in-url",
       "write 'http://h:1'"},
      {"{name: a, url: \"http://h:1/v1/x\", server: vllm}", "8:28 path-in-url",
       "write 'http://h:1'"},
      {"{name: a, url: \"http://h:1?a=b\", server: vllm}", "8:28 path-in-url",
       "write 'http://h:1'"},
      {"{name: a, url: \"http://localhost:8080\", server: vllm}", "8:28 asks-itself",
       "itself listens"},
      {"{name: a, " + url + ", server: vllm, caFile: c}", "8:67 ca-unused", "write https"},
      {"{name: a, " + url + ", server: vllm, set: {model: b}}", "8:73 set-refused",
       "own key 'model'"},
      {"{name: a, " + url + ", server: vllm, set: {stream: true}}", "8:73 set-refused",
       "leave it out"},
      {"{name: a, " + url + ", server: vllm, set: {logprobs: 1}}", "8:73 set-refused",
       "scoring.top"},
      {"{name: a, " + url + ", server: vllm, set: {stop: [a]}}", "8:79 wrong-type",
       "must be a scalar"},
      {"{name: a, " + url + ", server: vllm, set: {stop: ~}}", "8:73 empty-value",
       "give it a text"},
  };
  for (const Case& one : cases) {
    const GatewayOutcome outcome = ReadGateway(
        "apiVersion: kcc/v1\nkind: Gateway\nmetadata: {name: lab, version: 1.0.0}\nspec:\n"
        "  model: m\n  contract: c.yaml\n  policy: p.yaml\n  kernels: [" +
        one.kernel + "]\n");
    EXPECT_THAT(Placed(outcome, DiagnosticKind::kError), ElementsAre(one.placed)) << one.kernel;
    ASSERT_FALSE(outcome.diagnostics.empty()) << one.kernel;
    const Diagnostic& said = outcome.diagnostics[0];
    EXPECT_THAT(said.message + "; " + said.hint, HasSubstr(one.words)) << one.kernel;
    EXPECT_THAT(said.message, ::testing::Not(HasSubstr("secret"))) << one.kernel;
  }
  std::string many;
  for (int i = 0; i < 65; ++i) {
    many += "    - {name: k" + std::to_string(i) + ", url: \"http://h:" + std::to_string(i + 1) +
            "\", server: vllm}\n";
  }
  const std::string head =
      "apiVersion: kcc/v1\nkind: Gateway\nmetadata: {name: lab, version: 1.0.0}\nspec:\n"
      "  model: m\n  contract: c.yaml\n  policy: p.yaml\n";
  EXPECT_THAT(Placed(ReadGateway(head + "  kernels:\n" + many), DiagnosticKind::kError),
              ElementsAre("8:3 too-many-kernels"));
  EXPECT_THAT(Placed(ReadGateway(head + "  kernels: []\n"), DiagnosticKind::kError),
              ElementsAre("8:3 empty-list"));
  EXPECT_THAT(Placed(ReadGateway(head), DiagnosticKind::kError), ElementsAre("5:3 missing-key"));
}

TEST(ReadGateway, AsksForHooksThatGiveWhatTheirFieldIs) {
  struct Case {
    std::string hooks;  // from column 11 of line 11
    std::string placed;
    std::string words;
  };
  const std::vector<Case> cases = {
      {"{field: parsed}", "11:11 which-grader", "none of json, phrases, exec and http"},
      {"{field: parsed, json: any, exec: x}", "11:11 which-grader", "has json and exec"},
      {"{field: parsed, json: ''}", "11:33 empty-text", "write it"},
      {"{field: refused, phrases: []}", "11:37 empty-list", "name at least one"},
      {"{field: refused, phrases: [a, a]}", "11:41 duplicate-item", "keep one"},
      {"{field: refused, phrases: [a, '']}", "11:41 wrong-type", "an empty one"},
      {"{field: reward, json: any}", "11:19 grade-is-number", "by exec or http"},
      {"{field: reward, http: grade}", "11:33 bad-url", "write http://HOST:PORT"},
      {"{field: latency_ms, exec: x}", "11:19 not-graded", "known without a hook"},
      {"{field: task, exec: x}", "11:19 field-twice", "on line 10"},
      {"{field: 1st, exec: x}", "11:19 bad-field", "beginning with a letter"},
      {"{field: x, exec: x, when: \"tags ==\"}", "11:45 bad-when", "when: "},
      {"{field: x, exec: x, when: \"reward > 1\"}", "11:37 when-not-of-request", "reads reward"},
      {"{field: x, exec: x, when: \"token.position > 1\"}", "11:37 when-not-of-request",
       "reads token.position"},
      {"{field: x, exec: x, when: \"'a' in tags\"}", "11:37 unknown-field",
       "add '- {name: tags, from: \"header:x-kcc-tags\"}' to fields"},
      {"{field: x, exec: x, when: \"tasks == 'a'\"}", "11:37 unknown-field",
       "did you mean 'task'?"},
      {"{field: x, exec: x}, {field: x, exec: y}", "11:32 unreachable-hook", "on line 11"},
  };
  for (const Case& one : cases) {
    const GatewayOutcome outcome = ReadGatewayRest(
        "  fields: [{name: task, from: \"body:task\"}]\n  hooks: [" + one.hooks + "]\n");
    EXPECT_THAT(Placed(outcome, DiagnosticKind::kError), ElementsAre(one.placed)) << one.hooks;
    ASSERT_FALSE(outcome.diagnostics.empty()) << one.hooks;
    const Diagnostic& said = outcome.diagnostics[0];
    EXPECT_THAT(said.message + "; " + said.hint, HasSubstr(one.words)) << one.hooks;
  }
  const GatewayConfig config = ValidGateway(
      "  fields: [{name: task, from: \"body:task\"}]\n"
      "  hooks: [{field: parsed, json: a.json, when: \"task == 'a'\"}, {field: parsed, json: "
      "any}]\n");
  ASSERT_EQ(config.hooks.size(), 2u);
  EXPECT_EQ(config.hooks[1].schema_file, "");
}

TEST(ReadGateway, WarnsOfWhatIsAllowedAndUnwise) {
  const auto warned = [](const std::string& rest) {
    const GatewayOutcome outcome = ReadGatewayRest(rest);
    EXPECT_TRUE(outcome.config) << rest;
    return Placed(outcome, DiagnosticKind::kWarning);
  };
  EXPECT_THAT(warned(""), IsEmpty());
  EXPECT_THAT(warned("  stage: canary\n"), ElementsAre("10:10 stage-of-nothing"));
  EXPECT_THAT(warned("  stage: shadow\n"), ElementsAre("10:10 stage-of-nothing"));
  EXPECT_THAT(warned("  stage: shadow\n  register: r.db\n  promotion: p.yaml\n"), IsEmpty());
  EXPECT_THAT(warned("  listen: 0.0.0.0:1\n  clientKeys: k\n"), ElementsAre("11:3 keys-in-clear"));
  EXPECT_THAT(warned("  listen: 0.0.0.0:1\n  clientKeys: k\n  tls: {certificate: c, key: k}\n"),
              IsEmpty());
  EXPECT_THAT(warned("  clientKeys: k\n"), IsEmpty());
  EXPECT_THAT(warned("  telemetry: {otlp: \"http://c:4318/v1/\"}\n"),
              ElementsAre("10:21 path-dropped"));
  const auto kernels = [](const std::string& list) {
    const GatewayOutcome outcome = ReadGateway(
        "apiVersion: kcc/v1\nkind: Gateway\nmetadata: {name: lab, version: 1.0.0}\nspec:\n"
        "  model: m\n  contract: c.yaml\n  policy: p.yaml\n  kernels: [" +
        list + "]\n");
    EXPECT_TRUE(outcome.config) << list;
    return Placed(outcome, DiagnosticKind::kWarning);
  };
  EXPECT_THAT(kernels("{name: a, url: \"http://h:1/v1\", server: vllm}"),
              ElementsAre("8:28 path-dropped"));
  EXPECT_THAT(kernels("{name: a, url: \"http://h:1\", server: vllm, keyFile: k}"),
              ElementsAre("8:28 key-in-clear"));
  EXPECT_THAT(kernels("{name: a, url: \"http://127.0.0.1:1\", server: vllm, keyFile: k}"),
              IsEmpty());
}

TEST(ReadGateway, RefusesToReadSecretsAndTextsOfRequests) {
  for (const char* source :
       {"header:Authorization", "header:cookie", "header:X-API-Key", "body:messages",
        "body:prompt.text", "header:a b", "header:", "body:", "body:.a", "query:a"}) {
    EXPECT_FALSE(ReadSource(source).has_value()) << source;
  }
  EXPECT_EQ(ReadSource("header:X-Tenant").value(), (GatewaySource{true, "x-tenant"}));
  EXPECT_EQ(ReadSource("body:metadata.Task").value(), (GatewaySource{false, "metadata.Task"}));
}

TEST(ReadGateway, KeepsWhatIsSetAsJson) {
  const auto json = [](const std::string& value) {
    const GatewayOutcome outcome = ReadGateway(
        "apiVersion: kcc/v1\nkind: Gateway\nmetadata: {name: lab, version: 1.0.0}\nspec:\n"
        "  model: m\n  contract: c.yaml\n  policy: p.yaml\n  kernels:\n"
        "    - {name: a, url: \"http://h:1\", server: vllm, set: {x: " +
        value + "}}\n");
    EXPECT_TRUE(outcome.config) << value;
    return outcome.config ? outcome.config->kernels[0].set.at("x") : "";
  };
  EXPECT_EQ(json("0"), "0");
  EXPECT_EQ(json("-0"), "0");
  EXPECT_EQ(json("0.0"), "0");
  EXPECT_EQ(json("0.70"), "0.7");
  EXPECT_EQ(json(".5"), "0.5");
  EXPECT_EQ(json("+4"), "4");
  EXPECT_EQ(json("18446744073709551615"), "18446744073709551615") << "a seed is no double";
  EXPECT_EQ(json("007"), "7");
  EXPECT_EQ(json("true"), "true");
  EXPECT_EQ(json("'true'"), "\"true\"");
  EXPECT_EQ(json("'1'"), "\"1\"");
  EXPECT_EQ(json("yes"), "\"yes\"");
  EXPECT_EQ(json("\"a\\n\\\"b\""), "\"a\\n\\\"b\"");
  for (const std::string text : {"", "a", "a\"b\\c", "\n\r\t", "\x01", "\xC3\xBC"}) {
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.quoted = true;
    node.text = text;
    EXPECT_EQ(TextOfJson(ScalarJson(node)), text);
  }
  EXPECT_EQ(TextOfJson("1"), std::nullopt);
}

}  // namespace
}  // namespace kcc
