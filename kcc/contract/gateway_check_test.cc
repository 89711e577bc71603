// A gateway against the policy and the contract that it names.
#include "kcc/contract/gateway_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kcc/contract/gateway_config_gen.h"
#include "kcc/contract/monitor_reader.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kSession = "  session: [\"header:x-session-id\"]\n";

GatewayConfig Gateway(const std::string& rest) {
  return ValidGateway(std::string(kSession) + rest);
}

// Of kernels such as "{name: fp8, role: infer}".
MonitorPolicy Policy(const std::string& kernels) {
  const MonitorOutcome outcome = ReadMonitorPolicy(
      "apiVersion: kcc/v1\nkind: MonitorPolicy\nmetadata: {name: pool, version: 1.0.0}\nspec:\n"
      "  falseAlarms: 1 per 10^6 requests\n  panic: serve-safest\n  kernels: [" +
      kernels + "]\n");
  EXPECT_TRUE(outcome.policy) << kernels;
  return outcome.policy.value_or(MonitorPolicy());
}
constexpr std::string_view kServing = "{name: fp8, role: infer}, {name: int8, role: fallback}";

// From the slices on.
Contract ContractOf(const std::string& spec) {
  const ReadOutcome outcome = ReadContract(
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: c, version: 1.0.0}\nspec:\n" +
      spec);
  for (const Diagnostic& row : outcome.diagnostics) {
    EXPECT_NE(row.kind, DiagnosticKind::kError) << row.message;
  }
  return outcome.contract.value_or(Contract());
}
constexpr std::string_view kLatency =
    "  runtime: [{id: R-1, metric: p99_latency_ms, level: L2, atMost: 400ms}]\n";
constexpr std::string_view kAudited =
    "  numerical: [{id: N-1, metric: mean_kl, level: L2, atMost: 0.1, exceedance: 1%}]\n";

// "line:column code", an error marked by '!'.
std::vector<std::string> Said(const GatewayConfig& config, const MonitorPolicy& policy,
                              const Contract& contract) {
  std::vector<std::string> said;
  const std::vector<Diagnostic> found = CheckGateway(config, policy, contract);
  bool error = false;
  for (const Diagnostic& row : found) {
    EXPECT_FALSE(row.hint.empty()) << row.message;
    error = error || row.kind == DiagnosticKind::kError;
    said.push_back(std::to_string(row.mark.line) + ":" + std::to_string(row.mark.column) + " " +
                   row.code + (row.kind == DiagnosticKind::kError ? "!" : ""));
  }
  EXPECT_EQ(AnyError(found), error);
  return said;
}

std::vector<std::string> OfPool(const std::string& kernels, const std::string& rest = "") {
  return Said(Gateway(rest), Policy(kernels), ContractOf(std::string(kLatency)));
}

std::vector<std::string> OfContract(const std::string& spec, const std::string& rest = "") {
  const std::string serving(kServing);
  return Said(Gateway(rest), Policy(serving), ContractOf(spec));
}

TEST(CheckGateway, HasNothingToSayWhereAllFits) {
  EXPECT_THAT(OfPool(std::string(kServing)), IsEmpty());
  EXPECT_THAT(OfPool("{name: fp8, role: infer}, {name: int8, role: candidate}, "
                     "{name: x, role: fallback}"),
              ElementsAre("8:3 missing-kernel!", "9:13 idle-candidate"));
}

TEST(CheckGateway, WantsTheSameKernelsInBoth) {
  EXPECT_THAT(OfPool("{name: fp8, role: infer}, {name: f, role: fallback}, {name: int8, role: "
                     "candidate}",
                     "  shadow: int8\n"),
              ElementsAre("8:3 missing-kernel!"));
  EXPECT_THAT(OfPool("{name: fp8, role: infer}, {name: f, role: fallback}"),
              ElementsAre("8:3 missing-kernel!", "9:13 not-in-policy!"));
  const auto found =
      CheckGateway(Gateway(""), Policy("{name: fp8, role: infer}, {name: int-8, role: fallback}"),
                   ContractOf(std::string(kLatency)));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].message, HasSubstr("'int-8' of role fallback"));
  EXPECT_EQ(found[1].hint, "did you mean 'int-8'?");
}

TEST(CheckGateway, GivesNoClientTheAuditKernelsAnswers) {
  const std::string pool =
      "{name: fp8, role: infer}, {name: int8, role: audit}, {name: f, role: fallback}";
  EXPECT_THAT(OfPool(pool, "  canary: {kernel: int8, share: 1%}\n"),
              ElementsAre("8:3 missing-kernel!", "11:3 canary-is-audit!"));
  EXPECT_THAT(OfPool(pool, "  shadow: int8\n"),
              ElementsAre("8:3 missing-kernel!", "11:3 shadow-is-audit!"));
}

TEST(CheckGateway, SeesOneServerUnderTwoNames) {
  const auto said = [](const std::string& role, const std::string& other, const std::string& set) {
    const GatewayOutcome outcome = ReadGateway(
        "apiVersion: kcc/v1\nkind: Gateway\nmetadata: {name: lab, version: 1.0.0}\nspec:\n"
        "  model: m\n  contract: c\n  policy: p\n  session: [\"header:a\"]\n  kernels:\n"
        "    - {name: i, url: \"http://h:1\", server: vllm}\n"
        "    - {name: a, url: \"http://h:2\", server: vllm}\n"
        "    - {name: b, url: \"http://h:2\", server: vllm" +
        set + "}\n");
    EXPECT_TRUE(outcome.config);
    return Said(*outcome.config,
                Policy("{name: i, role: infer}, {name: a, role: " + role +
                       "}, {name: b, role: " + other + "}, {name: i2, role: fallback}"),
                ContractOf(std::string(kLatency)));
  };
  const std::string missing = "9:3 missing-kernel!";  // i2
  EXPECT_THAT(said("guard", "fallback", ""), ElementsAre(missing, "12:7 same-server"));
  EXPECT_THAT(said("guard", "fallback", ", set: {temperature: 0}"), ElementsAre(missing));
  EXPECT_THAT(said("fallback", "audit", ""), ElementsAre(missing));
  EXPECT_THAT(said("infer", "audit", ""), ElementsAre(missing, "12:7 judged-by-itself"));
  EXPECT_THAT(said("audit", "guard", ", set: {temperature: 0}"),
              ElementsAre(missing, "12:7 judged-by-itself"));
}

TEST(CheckGateway, SaysThatNothingCanBeRescored) {
  EXPECT_THAT(OfContract(std::string(kAudited)), ElementsAre("8:3 no-audit"));
  EXPECT_THAT(OfContract(std::string(kLatency)), IsEmpty()) << "of the request's own fields";
  for (const char* metric : {"p99_latency_ms_ratio", "p99_train_latency_ms"}) {
    EXPECT_THAT(OfContract("  runtime: [{id: R-1, metric: " + std::string(metric) +
                           ", level: L2, atMost: 2}]\n"),
                ElementsAre("8:3 no-audit"))
        << metric;
  }
  EXPECT_THAT(Said(Gateway(""),
                   Policy("{name: fp8, role: infer}, {name: int8, role: fallback}, "
                          "{name: a, role: audit}"),
                   ContractOf(std::string(kAudited))),
              ElementsAre("8:3 missing-kernel!"));
}

TEST(CheckGateway, WantsAStageThatIsJudged) {
  const std::string offline =
      "  runtime: [{id: R-1, metric: p99_latency_ms, level: L2, atMost: 400ms, stages: "
      "[offline]}]\n";
  EXPECT_THAT(OfContract(offline), ElementsAre("6:3 nothing-judged!"));
  EXPECT_THAT(OfContract(offline, "  register: r.db\n  promotion: p.yaml\n"), IsEmpty());
}

TEST(CheckGateway, WarnsWhereSessionsAreNotTold) {
  EXPECT_THAT(
      Said(ValidGateway(""), Policy(std::string(kServing)), ContractOf(std::string(kLatency))),
      ElementsAre("7:3 no-session"));
}

TEST(CheckGateway, KnowsWhoGivesTheFieldsThatAreRead) {
  const std::string tags =
      "  slices: [{name: s, where: \"'a' in tags\"}]\n"
      "  runtime: [{id: R-1, metric: p99_latency_ms, level: L2, atMost: 400ms, slices: [s]}]\n";
  EXPECT_THAT(OfContract(tags), ElementsAre("6:3 unread-field"));
  EXPECT_THAT(OfContract(tags, "  fields: [{name: tags, from: \"header:x-tags\"}]\n"), IsEmpty());
  const std::string reward =
      "  statistical: [{id: S-1, metric: mean_reward, level: L2, atLeast: 0.5, "
      "exceedance: 1%}]\n";
  EXPECT_THAT(OfContract(reward), ElementsAre("6:3 nothing-grades"));
  EXPECT_THAT(OfContract(reward, "  hooks: [{field: reward, exec: g}]\n"), IsEmpty());
  const std::string own =
      "  metrics: [{name: tone, from: tone_score, of: request, direction: lower}]\n"
      "  statistical: [{id: S-1, metric: mean_tone, level: L2, atMost: 0.5, exceedance: 1%}]\n";
  EXPECT_THAT(OfContract(own), ElementsAre("6:3 unread-field"));
  EXPECT_THAT(OfContract(own, "  hooks: [{field: tone_score, exec: g}]\n"), IsEmpty());
  EXPECT_THAT(OfContract(own, "  fields: [{name: tone_score, from: \"body:tone\"}]\n"), IsEmpty());
}

// The kernel that is judged writes the answer, so it would choose where it is judged.
TEST(CheckGateway, RefusesSlicesThatAHookMakesOfAnswers) {
  const std::string sliced =
      "  slices: [{name: s, where: \"tone > 1\"}]\n"
      "  runtime: [{id: R-1, metric: p99_latency_ms, level: L2, atMost: 400ms, slices: [s]}]\n";
  EXPECT_THAT(OfContract(sliced, "  hooks: [{field: tone, exec: g}]\n"),
              ElementsAre("11:11 slice-of-answer!"));
  EXPECT_THAT(OfContract(sliced, "  fields: [{name: tone, from: \"body:tone\"}]\n"), IsEmpty());
}

TEST(CheckGateway, WarnsWhereRepeatsAreWantedAndNoneAreMade) {
  const std::string repeats =
      "  runtime: [{id: R-1, metric: determinism_rate, level: L2, atLeast: 1}]\n";
  const Contract contract = ContractOf(repeats);
  ASSERT_EQ(contract.clauses.size(), 1u);
  EXPECT_THAT(
      Said(Gateway("  scoring: {determinism: 0}\n"), Policy(std::string(kServing)), contract),
      ::testing::Contains("6:3 no-repeats"));
}

}  // namespace
}  // namespace kcc
