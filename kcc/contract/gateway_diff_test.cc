// What became looser between two gateways.
#include "kcc/contract/gateway_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "kcc/contract/gateway_config_gen.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;

// "looser limits: what", for each change.
std::vector<std::string> Changes(const std::string& before, const std::string& after) {
  std::vector<std::string> changes;
  for (const Change& row : DiffGateways(ValidGateway(before), ValidGateway(after))) {
    changes.push_back(std::string(row.loosens ? "looser " : "") + row.where + ": " + row.what);
  }
  return changes;
}

TEST(DiffGateways, SaysWhatBecameLooser) {
  struct Case {
    std::string before;
    std::string after;
    std::string there;  // the change
    std::string back;   // the one of the way back
  };
  const std::string later = "; not comparable, so it counts as looser";
  const std::vector<Case> cases = {
      {"", "  threads: 4\n", "gateway: threads changed from 2 to 4",
       "gateway: threads changed from 4 to 2"},
      {"", "  listen: 0.0.0.0:8080\n",
       "looser listen: listen changed from 127.0.0.1:8080 to 0.0.0.0:8080" + later,
       "listen: listen changed from 0.0.0.0:8080 to 127.0.0.1:8080"},
      {"  adminToken: t\n", "", "looser admin: adminToken changed from t to none" + later,
       "admin: adminToken added, t"},
      {"  clientKeys: k\n", "", "looser listen: clientKeys changed from k to none" + later,
       "listen: clientKeys added, k"},
      {"", "  store: full\n", "looser gateway: store changed from hashes to full",
       "gateway: store changed from full to hashes"},
      {"", "  stage: canary\n", "looser gateway: stage changed from full to canary" + later,
       "looser gateway: stage changed from canary to full" + later},
      {"", "  canary: {kernel: int8, share: 5%}\n", "looser canary: int8 serves 5% of sessions",
       "canary: no longer there, was int8"},
      {"  canary: {kernel: int8, share: 5%}\n", "  canary: {kernel: int8, share: 10%}\n",
       "looser canary: share raised from 5% to 10%", "canary: share lowered from 10% to 5%"},
      {"  shadow: int8\n", "", "looser shadow: shadow changed from int8 to none" + later,
       "looser shadow: shadow changed from none to int8" + later},
      {"  scoring: {waiting: 9}\n", "  scoring: {waiting: 8}\n",
       "looser scoring: waiting lowered from 9 to 8", "scoring: waiting raised from 8 to 9"},
      {"", "  limits: {body: 9MiB}\n", "looser limits: body raised from 8MiB to 9MiB",
       "limits: body lowered from 9MiB to 8MiB"},
      {"  limits: {requestsPerSecond: 5}\n", "",
       "looser limits: requestsPerSecond raised from 5 to any",
       "limits: requestsPerSecond lowered from any to 5"},
      {"", "  limits: {answer: 1MiB}\n", "looser limits: answer lowered from 16MiB to 1MiB",
       "limits: answer raised from 1MiB to 16MiB"},
      {"", "  times: {request: 60s}\n", "looser times: request raised from 30s to 1m",
       "times: request lowered from 1m to 30s"},
      {"", "  times: {connect: 3s}\n", "times: connect changed from 2s to 3s",
       "times: connect changed from 3s to 2s"},
      {"  hooks: [{field: parsed, json: any}]\n", "",
       "looser hook parsed: no longer there, was json any", "hook parsed: added, json any"},
      {"  hooks: [{field: parsed, json: any}]\n", "  hooks: [{field: parsed, json: s}]\n",
       "looser hook parsed: changed from json any to json s" + later,
       "looser hook parsed: changed from json s to json any" + later},
      {"  fields: [{name: t, from: \"body:t\"}]\n", "",
       "looser field t: no longer there, was body:t", "field t: added, body:t"},
  };
  for (const Case& one : cases) {
    EXPECT_THAT(Changes(one.before, one.after), ElementsAre(one.there)) << one.after;
    EXPECT_THAT(Changes(one.after, one.before), ElementsAre(one.back)) << one.after;
  }
}

TEST(DiffGateways, ComparesKernelsByName) {
  const auto with = [](const std::string& kernels) {
    const GatewayOutcome outcome = ReadGateway(
        "apiVersion: kcc/v1\nkind: Gateway\nmetadata: {name: lab, version: 1.0.0}\nspec:\n"
        "  model: m\n  contract: c\n  policy: p\n  kernels: [" +
        kernels + "]\n");
    EXPECT_TRUE(outcome.config) << kernels;
    return outcome.config.value_or(GatewayConfig());
  };
  const std::string a = "{name: a, url: \"http://h:1\", server: vllm}";
  const std::string b = "{name: b, url: \"http://h:2\", server: vllm}";
  EXPECT_TRUE(DiffGateways(with(a + ", " + b), with(b + ", " + a)).empty());
  const auto gone = DiffGateways(with(a + ", " + b), with(a));
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].kind, ChangeKind::kGone);
  const auto added = DiffGateways(with(a), with(a + ", " + b));
  ASSERT_EQ(added.size(), 1u);
  EXPECT_TRUE(added[0].loosens);
  const auto set = DiffGateways(
      with(a), with("{name: a, url: \"http://h:1\", server: vllm, set: {temperature: 0}}"));
  ASSERT_EQ(set.size(), 1u);
  EXPECT_THAT(set[0].what, ::testing::HasSubstr("set changed from {} to {temperature: 0}"));
}

RC_GTEST_PROP(DiffGateways, HasNothingToSayOfOneGateway, ()) {
  const GatewayConfig config = DrawGateway();
  RC_ASSERT(DiffGateways(config, config).empty());
}

// What is told apart by the digest is told apart here.
RC_GTEST_PROP(DiffGateways, SeesEveryDifference, ()) {
  const GatewayConfig a = DrawGateway();
  const GatewayConfig b = DrawGateway();
  RC_ASSERT(DiffGateways(a, b).empty() == (GatewayDigest(a) == GatewayDigest(b)));
}

}  // namespace
}  // namespace kcc
