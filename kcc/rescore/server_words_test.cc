// The servers that a gateway's document may name are those that can be asked: the list stands below
// kcc/kernel, and is compared here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/contract/gateway_config.h"
#include "kcc/gateway/pool.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

TEST(GatewayServers, AreTheServersThatCanBeAsked) {
  EXPECT_THAT(GatewayServers(), ::testing::ElementsAreArray(ServerNames()));
  for (const std::string_view server : GatewayServers()) {
    EXPECT_NE(FindWireDialect(server), nullptr) << server;
  }
}

}  // namespace
}  // namespace kcc
