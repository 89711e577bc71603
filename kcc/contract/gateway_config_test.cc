// Gateways: where their files lie, identity, and the two texts.
#include "kcc/contract/gateway_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "kcc/contract/comments.h"
#include "kcc/contract/gateway_config_gen.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

TEST(GatewayPaths, AreBesideTheDocument) {
  EXPECT_EQ(PathBeside("gateway.yaml", "contract.yaml"), "contract.yaml");
  EXPECT_EQ(PathBeside("lab/gateway.yaml", "contract.yaml"), "lab/contract.yaml");
  EXPECT_EQ(PathBeside("/gateway.yaml", "contract.yaml"), "/contract.yaml");
  EXPECT_EQ(PathBeside("lab/gateway.yaml", "/etc/contract.yaml"), "/etc/contract.yaml");
  EXPECT_EQ(PathBeside("lab/gateway.yaml", ""), "");
  EXPECT_EQ(RegisterBeside("lab/gateway.yaml", "sqlite:kcc.db"), "sqlite:lab/kcc.db");
  EXPECT_EQ(RegisterBeside("lab/gateway.yaml", "postgresql://h/d"), "postgresql://h/d");
  EXPECT_EQ(RegisterBeside("lab/gateway.yaml", ""), "");
}

TEST(IsLoopback, KnowsNamesThatOnlyLookLikeIt) {
  for (const char* host : {"127.0.0.1", "127.255.0.9", "localhost", "::1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host :
       {"0.0.0.0", "::", "127.example.org", "localhost.example", "10.0.0.1", "128.0.0.1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(GatewayDigest, IsOfWhatTheGatewayIs) {
  const std::string digest = GatewayDigest(ValidGateway(""));
  EXPECT_EQ(digest, GatewayDigest(ValidGateway("  listen: 127.0.0.1:8080  # the usual\n"
                                               "  stage: full\n"
                                               "  times: {drain: 30000ms, firstByte: 600s}\n"
                                               "  limits: {body: 8192KiB}\n"
                                               "  scoring: {determinism: 0.01}\n")));
  EXPECT_NE(digest, GatewayDigest(ValidGateway("  threads: 3\n")));
  EXPECT_NE(digest, GatewayDigest(ValidGateway("  shadow: int8\n")));
  EXPECT_NE(GatewayDigest(ValidGateway("  session: [\"header:a\", \"header:b\"]\n")),
            GatewayDigest(ValidGateway("  session: [\"header:b\", \"header:a\"]\n")))
      << "the first that a request has counts";
}

TEST(GatewayYaml, IsTheDocumentAndKeepsItsComments) {
  const GatewayConfig config = *ReadGateway(kWholeGateway).config;
  const std::string formatted = ToYaml(config);
  const GatewayOutcome again = ReadGateway(formatted);
  ASSERT_TRUE(again.config) << formatted;
  const auto carried = CarryComments(kWholeGateway, config, formatted, *again.config);
  ASSERT_TRUE(carried) << formatted;
  EXPECT_THAT(*carried, HasSubstr("# what clients get"));
  EXPECT_THAT(*carried, HasSubstr("# answers that must be JSON\n    - {field: parsed"));
  EXPECT_EQ(GatewayDigest(*ReadGateway(*carried).config), GatewayDigest(config));
}

// --- Random gateways.

RC_GTEST_PROP(GatewayYaml, ReadsBackAsTheSameGateway, ()) {
  const GatewayConfig config = DrawGateway();
  const GatewayOutcome outcome = ReadGateway(ToYaml(config));
  for (const Diagnostic& row : outcome.diagnostics) {
    RC_LOG() << row.code << " " << row.message << "\n";
  }
  RC_LOG() << ToYaml(config);
  RC_ASSERT(outcome.config.has_value());
  RC_ASSERT(CanonicalJson(*outcome.config) == CanonicalJson(config));
}

// The canonical form is a document of the language, too.
RC_GTEST_PROP(GatewayCanonical, ReadsBackAsTheSameGateway, ()) {
  const std::string canonical = CanonicalJson(DrawGateway());
  const GatewayOutcome outcome = ReadGateway(canonical);
  RC_LOG() << canonical;
  RC_ASSERT(outcome.config.has_value());
  RC_ASSERT(CanonicalJson(*outcome.config) == canonical);
}

}  // namespace
}  // namespace kcc
