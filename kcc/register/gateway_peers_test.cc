#include "kcc/register/gateway_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/register/register_test_server.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GatewayPeersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(PostgresServer::Get().uri(), "") << "no PostgreSQL server; run tools/setup.sh";
    uri_ = PostgresServer::Get().NewSchema();
  }
  std::unique_ptr<GatewayPeers> Open() const {
    auto peers = GatewayPeers::Open(uri_);
    EXPECT_TRUE(peers.has_value()) << peers.error().Format();
    return std::move(*peers);
  }
  static PeerMember Member(const std::string& instance, const std::string& missing = "{}") {
    return {instance, "b1", "gateway", missing, 0};
  }
  static PeerState State(int64_t inbox) {
    return {"i1", "docs", 7, "sha256:x", inbox, std::string("\0bytes\xff", 7)};
  }

  std::string uri_;
};

TEST_F(GatewayPeersTest, OneHasTheLockUntilItIsGone) {
  auto first = Open();
  auto second = Open();
  EXPECT_TRUE(*first->Claim());
  EXPECT_TRUE(*first->Claim());
  EXPECT_FALSE(*second->Claim());
  EXPECT_THAT(second->WriteNotice({}).error().message(), HasSubstr("does not decide"));
  EXPECT_THAT(second->WriteState(State(0), {}).error().message(), HasSubstr("does not decide"));
  EXPECT_FALSE(second->Clear().has_value());
  first.reset();
  for (int i = 0; i < 1000 && !*second->Claim(); ++i) {
  }
  EXPECT_TRUE(*second->Claim());
}

TEST_F(GatewayPeersTest, WhatTheOneThatDecidesSaysIsRead) {
  auto decides = Open();
  auto follows = Open();
  ASSERT_TRUE(*decides->Claim());
  EXPECT_FALSE(follows->ReadNotice()->has_value());
  EXPECT_FALSE(follows->ReadState()->has_value());
  for (const int64_t event : {3, 4}) {
    ASSERT_TRUE(
        decides->WriteNotice({2, "i1", "b1", "lab", "docs", event, 9, R"({"a":1})"}).has_value());
    const auto notice = *follows->ReadNotice();
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->term, 2);
    EXPECT_EQ(notice->event, event);
    EXPECT_EQ(notice->states, 9);
    EXPECT_EQ(notice->gateway, "lab");
    EXPECT_EQ(notice->live, R"({"a":1})");
    EXPECT_GE(notice->age_ms, 0);
    EXPECT_LT(notice->age_ms, 60'000);
  }
  ASSERT_TRUE(decides->WriteState(State(0), {}).has_value());
  const auto state = *follows->ReadState();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->monitor, State(0).monitor);
  EXPECT_EQ(state->observations, 7);
  EXPECT_EQ(state->documents, "docs");
}

TEST_F(GatewayPeersTest, ItemsComeInOrderOnceAndGoWithTheStateThatHoldsThem) {
  auto decides = Open();
  auto follows = Open();
  ASSERT_TRUE(*decides->Claim());
  const std::vector<NewPeerItem> items = {{1, "one"}, {2, "two"}, {3, "three"}};
  ASSERT_TRUE(follows->Deliver(Member("i2"), items).has_value());
  ASSERT_TRUE(follows->Deliver(Member("i2"), items).has_value()) << "repeated";
  auto read = *decides->ReadItems(0, 10);
  ASSERT_THAT(read, SizeIs(3));
  EXPECT_EQ(read[0].text, "one");
  EXPECT_TRUE(read[2].sound);
  EXPECT_LT(read[0].sequence, read[1].sequence);
  EXPECT_THAT(*decides->ReadItems(read[0].sequence, 1), SizeIs(1));
  ASSERT_TRUE(decides->WriteState(State(read[1].sequence), {}).has_value());
  EXPECT_THAT(*decides->ReadItems(0, 10), SizeIs(1));
  // Also after they were folded and removed.
  ASSERT_TRUE(follows->Deliver(Member("i2"), items).has_value());
  EXPECT_THAT(*decides->ReadItems(0, 10), SizeIs(1));
  ASSERT_TRUE(decides->Clear().has_value());
  EXPECT_THAT(*decides->ReadItems(0, 10), IsEmpty());
}

TEST_F(GatewayPeersTest, MembersSayWhatWouldBeMissing) {
  auto decides = Open();
  auto follows = Open();
  ASSERT_TRUE(*decides->Claim());
  ASSERT_TRUE(follows->Deliver(Member("i2", R"({"fast":3})"), {}).has_value());
  ASSERT_TRUE(follows->Deliver(Member("i3"), {}).has_value());
  ASSERT_TRUE(follows->Deliver(Member("i2", R"({"fast":5})"), {}).has_value());
  auto members = *decides->ReadMembers();
  ASSERT_THAT(members, SizeIs(2));
  EXPECT_EQ(members[0].instance, "i2");
  EXPECT_EQ(members[0].missing, R"({"fast":5})");
  ASSERT_TRUE(follows->Leave(members[1]).has_value());
  members = *decides->ReadMembers();
  ASSERT_TRUE(decides->WriteState(State(0), members).has_value());
  EXPECT_THAT(*decides->ReadMembers(), IsEmpty());
}

TEST_F(GatewayPeersTest, AnItemThatWasChangedIsNotSound) {
  auto decides = Open();
  ASSERT_TRUE(*decides->Claim());
  const std::vector<NewPeerItem> items = {{1, "one"}};
  ASSERT_TRUE(decides->Deliver(Member("i2"), items).has_value());
  PGconn* connection = PQconnectdb(uri_.c_str());
  PQclear(PQexec(connection, "UPDATE kcc_gateway_inbox SET item = 'uno'"));
  PQfinish(connection);
  EXPECT_FALSE((*decides->ReadItems(0, 10))[0].sound);
}

TEST(GatewayPeersOfAFile, AreRefused) {
  EXPECT_THAT(GatewayPeers::Open("kcc.db").error().message(), HasSubstr("PostgreSQL alone"));
}

}  // namespace
}  // namespace kcc
