// What gateways tell each other, as text: evidence, routes, and what is beside them.
#include "kcc/control/peer_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/control/route_record.h"
#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using testing::GoodOrBad;
using ::testing::HasSubstr;
using testing::MonitorContract;
using ::testing::SizeIs;
using testing::SoftKl;

class PeerItemsTest : public ::testing::Test {
 protected:
  static EvidenceOrigin Origin(const std::string& request) {
    return {request, "fast", 1000, false};
  }
  MonitorObservation Seen(int64_t number, bool bad = false) {
    MonitorObservation observation = GoodOrBad(number, bad);
    observation.time_ms = clock_.NowMs();
    observation.session = "ann";
    observation.tokens.token = std::vector<int32_t>(observation.tokens.rows(), 7);
    return observation;
  }
  Result<ReadItem> Read(const std::string& text, int64_t waited_ms = 0, int64_t now_ms = 0) {
    return reader_.Read(text, waited_ms, now_ms);
  }

  const Contract contract_ = MonitorContract({SoftKl(0.05)});
  ManualClock clock_{1'000'000};
  PeerOutbox outbox_{contract_, true, &clock_};
  PeerItemReader reader_{{}};
};

TEST_F(PeerItemsTest, EvidenceComesAsItWentButForItsContent) {
  outbox_.Put(Seen(4, true), Origin("r4"));
  clock_.AdvanceMs(700);
  const auto items = outbox_.First(10);
  ASSERT_THAT(items, SizeIs(1));
  EXPECT_EQ(items[0].text.find("ann"), std::string::npos)
      << "the session's key has left the process";
  const auto read = Read(items[0].text, 250, 5'000'000);
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  const auto& observation = std::get<MonitorObservation>(read->evidence);
  const MonitorObservation was = Seen(4, true);
  EXPECT_EQ(observation.id(), was.id());
  EXPECT_EQ(observation.kernel, "fast");
  EXPECT_EQ(observation.audited, was.audited);
  ASSERT_EQ(observation.tokens.columns.size(), was.tokens.columns.size());
  EXPECT_EQ(observation.tokens.columns[0].lo, was.tokens.columns[0].lo);
  EXPECT_TRUE(observation.tokens.token.empty());
  // As old as it was, by the reader's clock.
  EXPECT_EQ(observation.time_ms, 5'000'000 - 250 - 700);
  EXPECT_TRUE(read->origin.hidden);
  EXPECT_EQ(read->origin.request, "r4");
  EXPECT_EQ(read->lost, 0u);
}

TEST_F(PeerItemsTest, ALineThatCouldNotBeReadStaysOne) {
  UnreadLine line;
  line.kernel = "fast";
  line.reason = "the audit kernel does not answer";
  outbox_.Put(line, Origin("r1"));
  const auto read = Read(outbox_.First(1)[0].text);
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(std::get<UnreadLine>(read->evidence).reason, line.reason);
}

TEST_F(PeerItemsTest, ItemsStayUntilTheyAreDelivered) {
  for (int i = 0; i < 5; ++i) outbox_.Put(Seen(i), Origin("r" + std::to_string(i)));
  EXPECT_THAT(outbox_.First(3), SizeIs(3));
  const auto again = outbox_.First(3);
  EXPECT_EQ(again[0].number, 1);
  EXPECT_EQ(outbox_.waiting_by_kernel(again[2].number)["fast"], 2u);
  outbox_.Delivered(again[2].number);
  EXPECT_EQ(outbox_.waiting(), 2u);
  EXPECT_EQ(outbox_.First(10)[0].number, 4);
}

TEST_F(PeerItemsTest, WhatHasNoRoomIsCountedAndSaidBehindWhatWaits) {
  UnreadLine line;
  line.kernel = "fast";
  line.reason = "x";
  for (size_t i = 0; i < PeerOutbox::kItemsMax + 7; ++i) outbox_.Put(line, Origin("r"));
  outbox_.PutLost("careful", 3);
  EXPECT_EQ(outbox_.lost(), 10u);
  EXPECT_EQ(outbox_.waiting_by_kernel(0)["fast"], PeerOutbox::kItemsMax + 7);
  while (true) {
    const auto items = outbox_.First(512);
    if (items.empty()) break;
    outbox_.Delivered(items.back().number);
    if (items.size() == 512) continue;
    const auto careful = Read(items[items.size() - 2].text);
    const auto fast = Read(items.back().text);
    EXPECT_EQ(careful->lost_kernel, "careful");
    EXPECT_EQ(careful->lost, 3u);
    EXPECT_EQ(fast->lost, 7u);
  }
  EXPECT_TRUE(outbox_.waiting_by_kernel(0).empty());
}

TEST_F(PeerItemsTest, EvidenceThatCannotBeWrittenIsMissing) {
  MonitorObservation huge = Seen(1);
  huge.infer.fields["text"] = std::string(kPeerItemBytesMax, 'x');
  outbox_.Put(std::move(huge), Origin("r1"));
  EXPECT_EQ(Read(outbox_.First(1)[0].text)->lost, 1u);
}

TEST_F(PeerItemsTest, ThatAKernelBeginsAnewIsSaid) {
  outbox_.PutRenewal("fast", "it is another build");
  const auto read = Read(outbox_.First(1)[0].text);
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(read->origin.kernel, "fast");
  EXPECT_EQ(read->renewal, "it is another build");
  EXPECT_TRUE(outbox_.waiting_by_kernel(0)["fast"] == 0)
      << "it is no evidence that could be missing";
}

TEST_F(PeerItemsTest, WhatNobodyWroteIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"lost":0})", R"({"lost":-1})", R"({"lost":1e30})",
                           R"({"observation":{}})", R"({"unread":{}})", R"({"lost":"3"})"}) {
    EXPECT_FALSE(Read(text).has_value()) << text;
  }
}

RouteRecord SomeRoute() {
  RouteRecord record;
  record.documents = {"sha256:c", "sha256:p", "full", "m"};
  record.gateway = "lab";
  record.instance = "i1";
  record.term = 3;
  record.serves = "b";
  record.canary = "c";
  record.canary_share = 0.25;
  record.allowed = {"b", "c"};
  record.guarded = {"a"};
  record.wished_canary = "c";
  record.wished_share = 0.5;
  record.reason = "a is guarded";
  record.observations = 12;
  record.head = "sha256:h";
  return record;
}

TEST(RouteRecordText, IsReadAsItWasWritten) {
  const RouteRecord record = SomeRoute();
  const auto read = ReadRouteBody(RouteBody(record));
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_TRUE(read->SameRoute(record));
  EXPECT_EQ(RouteBody(*read), RouteBody(record));
  for (const char* wrong : {"", "[]", "{}", R"({"contract":"c","term":0})",
                            R"({"contract":"c","term":1,"share":1.5})"}) {
    EXPECT_FALSE(ReadRouteBody(wrong).has_value()) << wrong;
  }
  LiveWords live{0.5, "a", 0.25, "s", "log-failed", "full"};
  EXPECT_EQ(*ReadLive(LiveText(live)), live);
}

TEST(RouteRecordPlan, SendsRequestsAsTheOtherDoesByTheNamesOfItsOwnPool) {
  LiveWords live;
  live.audit_share = 1;
  live.probed = "a";
  live.probe_share = 0.5;
  const auto plan = PlanOf(SomeRoute(), live, {"c", "x", "a", "b"});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->route.serves, 3);
  EXPECT_EQ(plan->route.canary, 0);
  EXPECT_EQ(plan->route.canary_share, ShareOf(0.25));
  EXPECT_EQ(plan->allowed, 0b1001u)
      << "a guarded kernel gets no request, nor one of which nothing is said";
  EXPECT_EQ(plan->sampling.probed, 2);
  EXPECT_THAT(PlanOf(SomeRoute(), live, {"a", "c"}).error().message(), HasSubstr("'b'"));
}

TEST(RouteRecordPlan, NamesAsGuardedWhatMayNotServeByEvidence) {
  MonitorStatus status;
  for (const char* name : {"a", "b", "c", "d", "audit"}) {
    status.kernels.push_back({});
    status.kernels.back().name = name;
  }
  status.kernels[0].state = KernelState::kGuarded;
  status.kernels[4].role = KernelRole::kAudit;
  RoutePlan plan;
  plan.serves = "b";
  plan.allowed = 0b0010;  // c alarmed in evidence that is in no log yet, d is not registered
  RouteWishes wishes;
  wishes.barred = {"d"};
  const RouteRecord record = RecordOf(plan, status, wishes, {"a", "b", "c", "d", "audit"});
  EXPECT_THAT(record.allowed, ElementsAre("b"));
  EXPECT_THAT(record.guarded, ElementsAre("a", "c"));
}

TEST(PeerDocumentsText, SaysWhatDiffers) {
  const PeerDocuments ours{"sha256:c", "sha256:p", "full", "m"};
  EXPECT_EQ(WhatDiffers(DocumentsText(ours), ours), "");
  EXPECT_THAT(WhatDiffers(DocumentsText({"x", "sha256:p", "full", "m"}), ours),
              HasSubstr("the contract x"));
  EXPECT_THAT(WhatDiffers(DocumentsText({"sha256:c", "sha256:p", "full", "n"}), ours),
              HasSubstr("the model 'n'"));
  EXPECT_THAT(WhatDiffers("garbage", ours), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace kcc
