#include "kcc/control/gateway_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/base/file.h"
#include "kcc/control/control_test_data.h"
#include "kcc/control/gateway_reload.h"
#include "kcc/control/kept_canary.h"
#include "kcc/control/register_link.h"
#include "kcc/register/register.h"

namespace kcc {
namespace {

using ::testing::Contains;
using testing::ControlTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kContract = R"(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: lab, version: 1.0.0}
spec:
  numerical:
    - {id: N-1, metric: max_kl, atMost: 1, exceedance: 5%, window: request, level: L2}
)";
constexpr const char* kPolicy = R"(
apiVersion: kcc/v1
kind: MonitorPolicy
metadata: {name: lab, version: 1.0.0}
spec:
  falseAlarms: 1 per 10^6 requests
  panic: serve-safest
  kernels:
    - {name: fp8, role: infer, fingerprint: build-8}
    - {name: bf16, role: fallback}
    - {name: train, role: audit}
)";
constexpr const char* kGateway = R"(
apiVersion: kcc/v1
kind: Gateway
metadata: {name: lab, version: 1.0.0}
spec:
  listen: 127.0.0.1:0
  admin: 127.0.0.1:0
  adminToken: admin.token
  model: kcc-lab
  contract: contract.yaml
  policy: policy.yaml
  clientKeys: keys.txt
  kernels:
    - {name: fp8, url: "http://127.0.0.1:8000", server: vllm, keyFile: fp8.key}
    - {name: bf16, url: "http://127.0.0.1:8001", server: vllm, model: "its own"}
    - {name: train, url: "http://127.0.0.1:8002", server: vllm}
)";
constexpr const char* kKey =
    "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae  ada\n# nobody\n";

class GatewayFilesTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    Write("contract.yaml", kContract);
    Write("policy.yaml", kPolicy);
    Write("gateway.yaml", kGateway);
    Write("admin.token", "secret\n");
    Write("fp8.key", "sk-8\n");
    Write("keys.txt", kKey);
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(Path(name), text).has_value());
  }
  LoadedGateway Load() { return LoadGateway(Path("gateway.yaml")); }
  static std::string Codes(const LoadedGateway& loaded) {
    std::string codes;
    for (const GatewayFinding& finding : loaded.findings) codes += finding.diagnostic.code + "\n";
    return codes;
  }
};

TEST_F(GatewayFilesTest, ReadsTheConfigurationAndAllThatItNames) {
  const LoadedGateway loaded = Load();
  ASSERT_TRUE(loaded.documents.has_value()) << Codes(loaded);
  const GatewayDocuments& documents = *loaded.documents;
  EXPECT_EQ(documents.admin_token, "secret");
  EXPECT_EQ(documents.kernel_keys.at("fp8"), "sk-8");
  ASSERT_EQ(documents.client_key_hashes.size(), 1u);
  const auto pool = PoolOf(documents);
  ASSERT_EQ(pool->kernels.size(), 3u);
  EXPECT_EQ(pool->kernels[0].fingerprint, "build-8");
  EXPECT_EQ(pool->kernels[0].key, "sk-8");
  EXPECT_EQ(pool->kernels[1].role, KernelRole::kFallback);
  EXPECT_NE(pool->kernels[2].wire, nullptr);
  const RescoreOptions scoring = RescoreOptionsOf(documents);
  EXPECT_EQ(scoring.uris.at("bf16"), "openai+http://127.0.0.1:8001?server=vllm&model=its%20own");
  EXPECT_THAT(scoring.uris.at("fp8"), HasSubstr("api_key_file="));
  EXPECT_FALSE(scoring.keep_texts);
}

TEST_F(GatewayFilesTest, TimesBelowASecondStayWhatTheyAre) {
  Write("gateway.yaml", std::string(kGateway) +
                            "  times: {idle: 200ms, request: 1500ms, firstByte: 30ms, drain: 1ms}\n"
                            "  scoring: {timeout: 300ms}\n");
  const LoadedGateway loaded = Load();
  ASSERT_TRUE(loaded.documents.has_value()) << Codes(loaded);
  const PlaneOptions plane = PlaneOptionsOf(*loaded.documents);
  EXPECT_EQ(plane.idle_ms, 200);
  EXPECT_EQ(plane.request_ms, 1500);
  EXPECT_EQ(plane.first_byte_ms, 30);
  EXPECT_EQ(plane.drain_ms, 1);
  EXPECT_EQ(plane.write_ms, 60'000);
  EXPECT_DOUBLE_EQ(RescoreOptionsOf(*loaded.documents).timeout_s, 0.3);
}

TEST_F(GatewayFilesTest, NamesEveryFileThatIsWrongInOneRun) {
  Write("contract.yaml", "kind: KernelContract\n");
  Write("keys.txt", "not a digest\n");
  Write("admin.token", "two words\n");
  std::filesystem::remove(Path("policy.yaml"));
  const LoadedGateway loaded = Load();
  EXPECT_FALSE(loaded.documents.has_value());
  std::set<std::string> files;
  for (const GatewayFinding& finding : loaded.findings) {
    files.insert(std::filesystem::path(finding.file).filename());
  }
  EXPECT_THAT(files, ElementsAre("admin.token", "contract.yaml", "keys.txt", "policy.yaml"));
}

TEST_F(GatewayFilesTest, WithoutAnAuditKernelItDoesNotStart) {
  std::string policy = kPolicy;
  policy.replace(policy.find("role: audit"), 11, "role: guard");
  Write("policy.yaml", policy);
  const LoadedGateway loaded = Load();
  EXPECT_FALSE(loaded.documents.has_value());
  EXPECT_THAT(Codes(loaded), HasSubstr("no-audit"));
}

TEST_F(GatewayFilesTest, AKeyFileWithoutAKeyLetsNobodyInByMistake) {
  Write("keys.txt", "# all were removed\n");
  EXPECT_THAT(Codes(Load()), HasSubstr("no-keys"));
}

TEST_F(GatewayFilesTest, AReloadKeepsWhatCannotChangeAndSaysSo) {
  const GatewayDocuments now = *Load().documents;
  std::string text = kGateway;
  text.replace(text.find("listen: 127.0.0.1:0"), 19, "listen: 127.0.0.1:9");
  text += "  limits: {body: 1MiB}\n";
  Write("gateway.yaml", text);
  std::string contract = kContract;
  contract.replace(contract.find("atMost: 1"), 9, "atMost: 2");
  Write("contract.yaml", contract);
  LoadedGateway next = Load();
  ASSERT_TRUE(next.documents.has_value()) << Codes(next);
  EXPECT_THAT(KeepWhatNeedsRestart(now, &*next.documents), ElementsAre("listen", "contract"));
  EXPECT_EQ(next.documents->config.listen, now.config.listen);
  EXPECT_EQ(next.documents->contract.clauses[0].threshold, 1);
  EXPECT_EQ(next.documents->config.limits.body_bytes_max, 1 << 20);
  EXPECT_TRUE(SameScoring(now, *next.documents));
}

TEST_F(GatewayFilesTest, ASmallerShareOutlastsARestart) {
  RouteWishes configured;
  configured.canary = "int8";
  configured.canary_share = 0.1;
  EXPECT_EQ(WithKeptCanary(Path("canary.json"), configured).canary_share, 0.1);
  RouteWishes asked = configured;
  asked.canary_share = 0;
  ASSERT_TRUE(KeepCanary(Path("canary.json"), configured, asked).has_value());
  EXPECT_EQ(WithKeptCanary(Path("canary.json"), configured).canary_share, 0);
  asked.canary_share = 0.8;
  ASSERT_TRUE(KeepCanary(Path("canary.json"), configured, asked).has_value());
  EXPECT_EQ(WithKeptCanary(Path("canary.json"), configured).canary_share, 0.1)
      << "what evidence allowed then it must allow again";
  asked.canary = "int4";
  ASSERT_TRUE(KeepCanary(Path("canary.json"), configured, asked).has_value());
  EXPECT_EQ(WithKeptCanary(Path("canary.json"), configured).canary_share, 0);
  configured.canary_share = 0.2;
  EXPECT_EQ(WithKeptCanary(Path("canary.json"), configured).canary_share, 0.2)
      << "somebody has changed the configuration since";
  Write("canary.json", "not JSON");
  EXPECT_EQ(WithKeptCanary(Path("canary.json"), configured).canary_share, 0.2);
}

TEST_F(GatewayFilesTest, ARegisterHasOneGateway) {
  RegisterLinkOptions options;
  options.uri = "sqlite:" + Path("kcc.db");
  options.gateway = "lab";
  options.contract = Load().documents->contract;
  options.contract_text = kContract;
  options.kernels = {{"fp8", "build-8"}, {"bf16", ""}};
  const auto first = RegisterLink::Open(options, &clock_);
  ASSERT_TRUE(first.has_value()) << first.error().Format();
  const auto second = RegisterLink::Open(options, &clock_);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().message(), HasSubstr("another gateway has this SQLite register"));
  EXPECT_TRUE((*first)->wishes().barred.empty()) << "it knows no pair, so it rules out nobody";
  EXPECT_FALSE((*first)->share_allowed("fp8").has_value());
}

TEST_F(GatewayFilesTest, AGuardedKernelIsAnIncidentOfTheRegister) {
  RegisterLinkOptions options;
  options.uri = Path("kcc.db");
  options.gateway = "lab";
  options.contract = Load().documents->contract;
  options.contract_text = kContract;
  {
    auto link = RegisterLink::Open(options, &clock_);
    ASSERT_TRUE(link.has_value()) << link.error().Format();
    (*link)->Begin([](const RouteWishes&, const std::string&) { return true; });
    HistoryEntry entry;
    entry.kind = "guard";
    entry.kernel = "fp8";
    entry.at_ms = 5;
    entry.reason = "fp8 is guarded";
    (*link)->Tell(entry);
    // Its end waits for what it was told.
  }
  auto source = Register::Open(options.uri);
  ASSERT_TRUE(source.has_value());
  const auto incidents = source->List({.table = EntryTable::kIncidents});
  ASSERT_TRUE(incidents.has_value());
  ASSERT_EQ(incidents->size(), 1u);
  EXPECT_THAT((*incidents)[0].event.body, HasSubstr("fp8 is guarded"));
}

TEST_F(GatewayFilesTest, APromotionThatIsNotUnderWayGivesNoShare) {
  RegisterLinkOptions options;
  options.uri = Path("kcc.db");
  options.gateway = "lab";
  options.contract = Load().documents->contract;
  options.contract_text = kContract;
  options.follows_promotion = true;
  options.wishes.canary = "fp8";
  options.wishes.canary_share = 0.5;
  const auto link = RegisterLink::Open(options, &clock_);
  ASSERT_TRUE(link.has_value()) << link.error().Format();
  EXPECT_EQ((*link)->wishes().canary_share, 0);
  EXPECT_EQ((*link)->share_allowed("fp8"), 0);
  EXPECT_FALSE((*link)->promotion().has_value());
}

}  // namespace
}  // namespace kcc
