#include "kcc/control/live_monitor.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "kcc/base/file.h"
#include "kcc/control/control_test_data.h"
#include "kcc/monitorlog/log_replay.h"

namespace kcc {
namespace {

using testing::ControlTest;
using testing::KernelIn;
using testing::MonitorContract;
using testing::SoftKl;

class LiveMonitorTest : public ControlTest {
 protected:
  // From now on no file grows, as on a full disk.
  class FullDisk {
   public:
    explicit FullDisk(const std::string& log) {
      before_ = std::signal(SIGXFSZ, SIG_IGN);
      getrlimit(RLIMIT_FSIZE, &limit_);
      rlimit full = limit_;
      full.rlim_cur = std::filesystem::file_size(log);
      setrlimit(RLIMIT_FSIZE, &full);
    }
    ~FullDisk() {
      setrlimit(RLIMIT_FSIZE, &limit_);
      std::signal(SIGXFSZ, before_);
    }

   private:
    rlimit limit_{};
    void (*before_)(int) = nullptr;
  };

  void ExpectReplays(const LiveMonitorOptions& options) {
    const auto replay = ReplayLog({options.session.log}, options.contract, options.policy);
    ASSERT_TRUE(replay.has_value()) << replay.error().Format();
    EXPECT_FALSE(replay->difference.has_value()) << replay->difference->Format();
  }
};

TEST_F(LiveMonitorTest, RoutesToTheFirstKernelBeforeAnythingIsKnown) {
  const auto live = Open();
  EXPECT_EQ(words_.route(), (Route24{.serves = kFast, .canary = kNoKernel, .canary_share = 0}));
  EXPECT_EQ(words_.allowed(), 0b111u);
  EXPECT_EQ(words_.sampling().audit_share, ShareOf(0.05));
  EXPECT_TRUE(Told("start"));
}

TEST_F(LiveMonitorTest, AnAlarmMovesTheRouteInTheSameCall) {
  const auto live = Open();
  for (int i = 0; i < 1000 && words_.route().serves == kFast; ++i) {
    EXPECT_FALSE(Told("alarm")) << "an alarm was told of before its route";
    Fold(*live, true);
  }
  EXPECT_EQ(words_.route().serves, kCareful);
  EXPECT_EQ(words_.allowed(), 0b110u) << "failover may not go back to the guarded kernel";
  EXPECT_EQ(words_.sampling().probed, kFast);
  EXPECT_TRUE(Told("alarm"));
  EXPECT_TRUE(Told("guard"));
  EXPECT_TRUE(Told("route"));
}

TEST_F(LiveMonitorTest, ReleasesByEvidenceAndNeverByTime) {
  const auto live = Open();
  Break(*live);
  for (int day = 0; day < 30; ++day) {
    clock_.AdvanceMs(86'400'000);
    live->Tick();
  }
  EXPECT_EQ(words_.route().serves, kCareful);
  for (int i = 0; i < 5000 && words_.route().serves != kFast; ++i) Fold(*live, false);
  EXPECT_EQ(words_.route().serves, kFast);
  EXPECT_TRUE(Told("release"));
  EXPECT_EQ(words_.sampling().audit_share, kWholeShare) << "on probation all are audited";
}

TEST_F(LiveMonitorTest, LostEvidenceReleasesNothing) {
  const auto live = Open();
  Break(*live);
  live->FoldLost("fast", 5000);
  for (int i = 0; i < 10; ++i) live->Tick();
  EXPECT_EQ(words_.route().serves, kCareful);
  EXPECT_EQ(live->lost(), 5000u);
  EXPECT_EQ(live->status().unread, 5000);
}

TEST_F(LiveMonitorTest, WhatNobodyKeptIsOneLineOfTheLogAndAsManyObservations) {
  auto live = Open();
  Fold(*live, false);
  live->FoldDropped("fast", 5000);
  live->FoldDropped("careful", 3);
  EXPECT_EQ(live->lost(), 0u) << "they are counted as dropped";
  EXPECT_EQ(live->status().unread, 5003);
  EXPECT_TRUE(live->Close().has_value());
  ExpectReplays(Options());
  std::ifstream log(Path("decisions.jsonl"));
  std::string line;
  int lines = 0;
  while (std::getline(log, line)) ++lines;
  EXPECT_EQ(lines, 4) << "the start, an observation, and one of each kernel";
  live.reset();
  const auto again = Open();
  EXPECT_EQ(again->status().unread, 5003);
}

TEST_F(LiveMonitorTest, WhatNobodyKeptIsFoldedOnceThoughTheLogFails) {
  const auto live = Open();
  Fold(*live, false);
  {
    const FullDisk full(Path("decisions.jsonl"));
    live->FoldDropped("fast", 700);
    EXPECT_TRUE(live->log_failed());
  }
  for (int i = 0; i < 3; ++i) {
    clock_.AdvanceMs(20'000);
    live->Tick();
  }
  EXPECT_EQ(live->status().unread, 700);
  EXPECT_TRUE(live->Close().has_value());
  ExpectReplays(Options());
}

TEST_F(LiveMonitorTest, EvidenceThatCannotBeTakenIsMissingAndNotGone) {
  const auto live = Open();
  MonitorObservation strange = testing::GoodOrBad(1, false, "a stranger");
  live->Fold(strange, {"r1", "a stranger", 0, false});
  EXPECT_EQ(live->status().unread, 1);
  EXPECT_TRUE(live->Close().has_value());
  ExpectReplays(Options());
}

TEST_F(LiveMonitorTest, EvidenceThatComesLateCountsWhenItComes) {
  LiveMonitorOptions options = Options();
  options.policy.audit.session_epoch_ms = 1000;
  const auto live = Open(std::move(options));
  const auto give = [&](const std::string& id, int64_t time_ms) {
    MonitorObservation observation = testing::GoodOrBad(time_ms, false);
    observation.infer.id = id;
    observation.train->id = id;
    live->Fold(observation, {id, "fast", time_ms, false});
  };
  clock_.AdvanceMs(60'000);
  give("fast one", clock_.NowMs());
  give("slow one", clock_.NowMs() - 30'000);  // of an epoch that is over
  give("future one", clock_.NowMs() + 900'000);
  give("next one", clock_.NowMs());
  EXPECT_EQ(live->status().late, 0);
  EXPECT_EQ(KernelIn(live->status(), "fast").audited, 4);
}

TEST_F(LiveMonitorTest, WhatBeganBeforeAnAlarmBringsNoKernelBack) {
  const auto live = Open();
  const int64_t before = clock_.NowMs();
  clock_.AdvanceMs(60'000);
  const auto give = [&](bool bad, int64_t began_ms) {
    MonitorObservation observation = testing::GoodOrBad(number_, bad);
    observation.time_ms = began_ms;
    live->Fold(observation, {"r" + std::to_string(number_++), "fast", began_ms, false});
  };
  for (int i = 0; i < 1000 && words_.route().serves == kFast; ++i) give(true, clock_.NowMs());
  ASSERT_EQ(words_.route().serves, kCareful);
  for (int i = 0; i < 2000; ++i) give(false, before);
  EXPECT_EQ(words_.route().serves, kCareful) << "good answers from before the fault";
  clock_.AdvanceMs(1000);
  for (int i = 0; i < 2000 && words_.route().serves != kFast; ++i) give(false, clock_.NowMs());
  EXPECT_EQ(words_.route().serves, kFast);
}

TEST_F(LiveMonitorTest, TheLogHoldsNoSessionKeyAndNoTokenUnlessItIsToldTo) {
  for (const bool hide : {true, false}) {
    LiveMonitorOptions options = Options();
    options.session.log = Path(hide ? "hidden.jsonl" : "shown.jsonl");
    options.session.state = "";
    options.hide_content = hide;
    const auto live = Open(std::move(options));
    MonitorObservation observation = testing::GoodOrBad(1, false);
    observation.session = "key-of-ada";
    observation.tokens.token = {4711};
    live->Fold(observation, {"r1", "fast", 0, false});
    ASSERT_TRUE(live->Close().has_value());
    const std::string log = *ReadFile(Path(hide ? "hidden.jsonl" : "shown.jsonl"), 1 << 20);
    EXPECT_EQ(log.find("key-of-ada") == std::string::npos, hide);
    EXPECT_EQ(log.find("4711") == std::string::npos, hide);
  }
}

TEST_F(LiveMonitorTest, ARestartKeepsTheRouteAndEveryDecision) {
  {
    const auto live = Open();
    Break(*live);
    ASSERT_EQ(words_.route().serves, kCareful);
    // As after a kill: nothing is closed.
  }
  words_.Publish(Route24{});
  const auto again = Open();
  EXPECT_EQ(again->resumed(), number_);
  EXPECT_EQ(words_.route().serves, kCareful);
  EXPECT_EQ(words_.sampling().probed, kFast);
  ExpectReplays(Options());
}

TEST_F(LiveMonitorTest, FailsClosedWhereThePolicySaysSo) {
  LiveMonitorOptions options = Options();
  options.policy.panic = PanicRule::kFailClosed;
  const auto live = Open(std::move(options));
  for (int i = 0; i < 500; ++i) {
    for (const char* kernel : {"fast", "careful", "reference"}) Fold(*live, true, kernel);
  }
  EXPECT_EQ(words_.route().serves, kNoKernel);
  EXPECT_EQ(words_.allowed(), 0u);
  EXPECT_FALSE(PickKernel(words_.route(), 1).has_value());
}

TEST_F(LiveMonitorTest, AGuardedCanaryTakesNoSession) {
  LiveMonitorOptions options = Options();
  options.wishes.canary = "careful";
  options.wishes.canary_share = 0.25;
  const auto live = Open(std::move(options));
  EXPECT_EQ(words_.route().canary, kCareful);
  EXPECT_EQ(words_.route().canary_share, ShareOf(0.25));
  for (int i = 0; i < 1000 && words_.route().canary != kNoKernel; ++i) Fold(*live, true, "careful");
  EXPECT_EQ(words_.route(), (Route24{.serves = kFast, .canary = kNoKernel, .canary_share = 0}));
}

TEST_F(LiveMonitorTest, AFullDiskReleasesNothingAndLosesNothing) {
  const auto live = Open();
  for (int i = 0; i < 20; ++i) Fold(*live, false);
  Break(*live);
  {
    const FullDisk full(Path("decisions.jsonl"));
    for (int i = 0; i < 400; ++i) Fold(*live, false);
    EXPECT_TRUE(live->log_failed());
    EXPECT_TRUE(Told("log"));
    EXPECT_GE(live->log_errors(), 1u);
    clock_.AdvanceMs(2000);
    live->Tick();
    EXPECT_TRUE(live->log_failed());
    EXPECT_EQ(words_.route().serves, kCareful) << "released without a line in the log";
  }
  clock_.AdvanceMs(20'000);
  live->Tick();
  EXPECT_FALSE(live->log_failed());
  EXPECT_EQ(live->lost(), 0u);
  EXPECT_EQ(words_.route().serves, kFast);
  EXPECT_TRUE(live->Close().has_value());
  ExpectReplays(Options());
  EXPECT_EQ(live->status().observations, number_);
}

TEST_F(LiveMonitorTest, AnAlarmOnAFullDiskStillTakesTheKernelAway) {
  const auto live = Open();
  for (int i = 0; i < 20; ++i) Fold(*live, false);
  {
    const FullDisk full(Path("decisions.jsonl"));
    Break(*live);
    EXPECT_EQ(words_.route().serves, kCareful);
    EXPECT_EQ(live->unsafe().count("fast"), 1u);
    EXPECT_EQ(words_.allowed() & 1u, 0u);
  }
  clock_.AdvanceMs(20'000);
  live->Tick();
  EXPECT_EQ(words_.route().serves, kCareful);
  EXPECT_EQ(KernelIn(live->status(), "fast").state, KernelState::kGuarded);
  EXPECT_TRUE(live->unsafe().empty()) << "the log has it";
}

TEST_F(LiveMonitorTest, OnAFullDiskNoShareGrows) {
  LiveMonitorOptions options = Options();
  options.wishes.canary = "careful";
  options.wishes.canary_share = 0.1;
  const auto live = Open(std::move(options));
  Fold(*live, false);
  const FullDisk full(Path("decisions.jsonl"));
  Fold(*live, false);
  ASSERT_TRUE(live->log_failed());
  RouteWishes more = live->wishes();
  more.canary_share = 0.5;
  live->Wish(more, "canary", "an operator");
  EXPECT_EQ(words_.route().canary_share, ShareOf(0.1));
}

TEST_F(LiveMonitorTest, WhatFindsNoRoomOnAFullDiskIsCounted) {
  LiveMonitorOptions options = Options();
  options.waiting_max = 10;
  const auto live = Open(std::move(options));
  Fold(*live, false);
  {
    const FullDisk full(Path("decisions.jsonl"));
    for (int i = 0; i < 50; ++i) Fold(*live, false);
    EXPECT_EQ(live->waiting(), 10u);
    EXPECT_EQ(live->lost(), 40u);
  }
  clock_.AdvanceMs(20'000);
  live->Tick();
  EXPECT_EQ(live->status().unread, 40);
  EXPECT_EQ(live->status().observations, 51);
}

TEST_F(LiveMonitorTest, ALogOfAnotherContractIsRefused) {
  { const auto live = Open(); }
  LiveMonitorOptions options = Options();
  options.contract = MonitorContract({SoftKl(0.1)});
  const auto other = LiveMonitor::Open(std::move(options), &words_, &history_, &clock_);
  ASSERT_FALSE(other.has_value());
}

TEST_F(LiveMonitorTest, ProbesTurnAmongGuardedKernels) {
  LiveMonitorOptions options = Options();
  const auto live = Open(std::move(options));
  for (int i = 0; i < 500; ++i) Fold(*live, true, "fast");
  for (int i = 0; i < 500; ++i) Fold(*live, true, "careful");
  ASSERT_EQ(words_.route().serves, kReference);
  std::set<uint8_t> probed;
  for (int i = 0; i < 6; ++i) {
    clock_.AdvanceMs(5000);
    live->Tick();
    probed.insert(words_.sampling().probed);
  }
  EXPECT_EQ(probed, (std::set<uint8_t>{kFast, kCareful}));
}

}  // namespace
}  // namespace kcc
