// What a gateway goes on from where another decided before: a state, and a route that may know
// more.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "kcc/control/control_test_data.h"
#include "kcc/control/decider.h"
#include "kcc/control/evaluator.h"
#include "kcc/monitorlog/log_replay.h"

namespace kcc {
namespace {

using testing::ControlTest;
using testing::GoodOrBad;
using testing::KernelIn;

class TakeOverTest : public ControlTest {
 protected:
  LiveMonitorOptions Other() const {
    LiveMonitorOptions options = Options();
    options.session.log = Path("other.jsonl");
    options.session.state = Path("other.state");
    return options;
  }
  // A monitor in another folder that goes on from the snapshot.
  std::unique_ptr<LiveMonitor> GoOn(const MonitorSnapshot& from, LiveMonitorOptions options) {
    const LogBefore before{from.head, from.observations, from.monitor};
    const Result<> begun =
        MonitorSession::BeginFrom(options.contract, options.policy, options.session, before);
    EXPECT_TRUE(begun.has_value()) << begun.error().Format();
    return Open(std::move(options));
  }
  KernelStatus Fast(LiveMonitor& live) { return KernelIn(live.status(), "fast"); }
};

TEST_F(TakeOverTest, WhatIsGuardedStaysGuardedAndNoOldProbeReleasesIt) {
  auto live = Open();
  Break(*live);
  for (int i = 0; i < 5; ++i) Fold(*live, false);
  const int64_t before_ms = clock_.NowMs();
  const auto snapshot = live->Snapshot();
  ASSERT_TRUE(snapshot.has_value());
  clock_.AdvanceMs(10'000);
  auto other = GoOn(*snapshot, Other());
  ASSERT_TRUE(other);
  EXPECT_EQ(words_.route().serves, kCareful);
  EXPECT_EQ(Fast(*other).state, KernelState::kGuarded);
  EXPECT_EQ(other->resumed(), snapshot->observations);
  // Evidence of before the alarm, that comes late through the register.
  for (int i = 0; i < 500; ++i) {
    MonitorObservation probe = GoodOrBad(10'000 + i, false);
    probe.probe = true;
    probe.time_ms = before_ms - 1;
    other->Fold(std::move(probe), {"late", "fast", before_ms - 1, true, true, i + 1});
  }
  EXPECT_EQ(words_.route().serves, kCareful) << "released by what was seen before the alarm";
  number_ = 20'000;
  for (int i = 0; i < 5000 && words_.route().serves != kFast; ++i) Fold(*other, false);
  EXPECT_EQ(words_.route().serves, kFast);
  EXPECT_EQ(other->Snapshot()->inbox, 500);
}

TEST_F(TakeOverTest, WhatTheRouteHadTakenAwayServesOnlyOnceEvidenceOfItsOwnSatisfies) {
  auto live = Open();
  while (Fast(*live).verdict != Verdict::kSatisfied) Fold(*live, false);
  const auto snapshot = live->Snapshot();
  ASSERT_TRUE(snapshot.has_value());
  LiveMonitorOptions options = Other();
  options.unsafe = {"fast"};  // by the route; the state knows of no alarm
  auto other = GoOn(*snapshot, options);
  ASSERT_TRUE(other);
  EXPECT_EQ(words_.route().serves, kCareful);
  EXPECT_EQ(words_.allowed() & 1, 0u);
  EXPECT_EQ(words_.sampling().probed, kFast) << "nothing could bring it back";
  EXPECT_EQ(Fast(*other).verdict, Verdict::kInconclusive) << "what satisfied it was seen before";
  EXPECT_TRUE(Told("start"));
  for (int i = 0; i < 3; ++i) Fold(*other, false);
  EXPECT_EQ(words_.route().serves, kCareful);
  for (int i = 0; i < 5000 && Fast(*other).verdict != Verdict::kSatisfied; ++i) Fold(*other, false);
  Fold(*other, false);
  other->Tick();
  other->Wish(other->wishes(), "canary", "the route is made anew");
  EXPECT_EQ(words_.route().serves, kFast);
  other.reset();
  const auto replay = ReplayLog({options.session.log}, options.contract, options.policy);
  ASSERT_TRUE(replay.has_value());
  EXPECT_FALSE(replay->difference.has_value()) << replay->difference->Format();
}

TEST_F(TakeOverTest, HeldKernelsDoNotServeWhateverReleasesThem) {
  auto live = Open();
  Break(*live);
  RouteWishes wishes = live->wishes();
  wishes.held = {"fast"};
  live->Wish(wishes, "peers", "the register is not reached");
  for (int i = 0; i < 5000 && Fast(*live).state == KernelState::kGuarded; ++i) Fold(*live, false);
  EXPECT_NE(Fast(*live).state, KernelState::kGuarded);
  EXPECT_EQ(words_.route().serves, kCareful);
  EXPECT_EQ(words_.allowed() & 1, 0u);
  wishes.held.clear();
  live->Wish(wishes, "peers", "it is reached again");
  EXPECT_EQ(words_.route().serves, kFast);
}

TEST_F(TakeOverTest, RenewingIsLoggedAndToldAndRefusedWithoutALog) {
  auto live = Open();
  while (Fast(*live).verdict != Verdict::kSatisfied) Fold(*live, false);
  ASSERT_TRUE(live->Renew("fast", "another build answers").has_value());
  EXPECT_EQ(Fast(*live).verdict, Verdict::kInconclusive);
  EXPECT_TRUE(Told("renew"));
  EXPECT_FALSE(live->Renew("nobody", "why").has_value());
}

// Evidence is given to one of the two, whatever moment it comes at.
TEST_F(TakeOverTest, NothingIsLostBetweenTheEvaluatorAndTheRegister) {
  history_.Listen({});
  EvaluatorOptions options;
  options.live = Options();
  options.queue_max = 100'000;
  PeerOutbox outbox(options.live.contract, true, &TheSystemClock());
  Decider decider(&TheSystemClock(), &outbox);
  EXPECT_TRUE(decider.follows());
  ASSERT_NE(decider.view(), nullptr);
  auto evaluator = Evaluator::Start(options, &words_, &history_, &TheSystemClock());
  ASSERT_TRUE(evaluator.has_value());
  std::atomic<bool> over{false};
  int64_t given = 0;
  std::thread giver([&] {
    for (; !over.load(); ++given) {
      decider.Take(GoodOrBad(given, false), {"r" + std::to_string(given), "fast", 0, false});
    }
  });
  while (outbox.waiting() < 10) std::this_thread::yield();
  decider.Set(std::shared_ptr<Evaluator>(std::move(*evaluator)));
  EXPECT_FALSE(decider.follows());
  while (decider.queued() < 10 && decider.view()->status.observations < 10) {
    std::this_thread::yield();
  }
  const auto own = decider.Set(nullptr);
  over.store(true);
  giver.join();
  own->End();
  const auto folded = static_cast<size_t>(Open()->resumed());
  EXPECT_EQ(folded + outbox.waiting() + outbox.lost(), static_cast<size_t>(given));
  EXPECT_EQ(decider
                .Wish([](const EvaluatorView& view) -> Result<RouteWishes> { return view.wishes; },
                      "canary", "x")
                .error()
                .code(),
            ErrorCode::kInvalid);
}

}  // namespace
}  // namespace kcc
