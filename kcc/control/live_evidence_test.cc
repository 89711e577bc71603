#include "kcc/control/live_evidence.h"

#include <gtest/gtest.h>

#include "kcc/judge/judge.h"
#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using testing::GoodOrBad;
using testing::MonitorContract;
using testing::SoftKl;

class LiveEvidenceTest : public ::testing::Test {
 protected:
  LiveStage StageOf(Stage stage, int64_t entered = 7) const {
    LiveStage live;
    live.promotion = "p1";
    live.entered = entered;
    live.entered_ms = 1000;
    live.stage = stage;
    live.kernel = "fast";
    live.candidate = {"m", "train", "infer", "c", "", ""};
    return live;
  }
  void Begin(Stage stage = Stage::kCanary, int64_t entered = 7, uint64_t lost = 0) {
    ASSERT_TRUE(evidence_.Begin(StageOf(stage, entered), Plan::FromContract(contract_), lost));
  }
  void Take(const Evidence& what, int64_t at_ms = 2000, Handling handling = Handling::kCounted) {
    MonitorDecision decision;
    decision.number = ++number_;
    decision.handling = handling;
    evidence_.Take(what, {"r", "fast", at_ms, false}, decision);
  }
  void Good(int count, bool probe = false, int64_t at_ms = 2000) {
    for (int i = 0; i < count; ++i) {
      MonitorObservation observation = GoodOrBad(next_++, false);
      observation.probe = probe;
      Take(observation, at_ms);
    }
  }
  void Lose(const std::string& kernel, int64_t lines = 1) {
    UnreadLine line;
    line.kernel = kernel;
    line.lines = lines;
    line.reason = "x";
    Take(line);
  }
  Verdict VerdictOf(const CollectedEvidence& collected) const {
    JudgeOptions options;
    options.stage = collected.stage.stage;
    options.about = Population::kTraffic;
    return Judge(contract_, collected.summary, options).verdict;
  }

  const Contract contract_ = MonitorContract({SoftKl(0.05)});
  LiveEvidence evidence_{contract_, "process"};
  int64_t number_ = 0;
  int64_t next_ = 0;
};

TEST_F(LiveEvidenceTest, CollectsWhatTheCandidateServedSinceTheStageBegan) {
  Good(5);  // nobody asked yet
  Begin();
  Good(3, false, 999);  // began before the stage
  Good(4, true);        // probes of a guarded kernel
  Good(400);
  Take(GoodOrBad(next_++, true, "careful"));
  Take(GoodOrBad(next_++, true), 2000, Handling::kDuplicate);
  const auto collected = evidence_.Collect(10'000, false);
  ASSERT_TRUE(collected);
  EXPECT_EQ(collected->summary.requests.size(), 400u);
  EXPECT_EQ(collected->lost, 0u);
  EXPECT_TRUE(collected->summary.Complete());
  EXPECT_EQ(VerdictOf(*collected), Verdict::kSatisfied);
}

TEST_F(LiveEvidenceTest, OfShadowsItCollectsCopiesAlone) {
  Begin(Stage::kShadow);
  Good(5);
  EXPECT_FALSE(evidence_.Collect(10'000, true));
  Good(6, true);
  EXPECT_EQ(evidence_.Collect(10'000, true)->summary.requests.size(), 6u);
}

TEST_F(LiveEvidenceTest, WhatIsMissingMakesNothingSatisfied) {
  for (const bool late : {false, true}) {
    evidence_.Discard();
    Begin(Stage::kCanary, late ? 8 : 9);
    Lose("fast");  // before anything was scored
    Good(400);
    EXPECT_EQ(VerdictOf(*evidence_.Collect(10'000, true)), Verdict::kSatisfied);
    if (late) {
      Take(GoodOrBad(next_++, false), 2000, Handling::kLate);
    } else {
      Lose("");  // it may have been this one's
    }
    Lose("careful");
    Good(1);
    const auto collected = evidence_.Collect(10'000, true);
    EXPECT_EQ(collected->lost, 1u);
    EXPECT_EQ(VerdictOf(*collected), Verdict::kInconclusive);
  }
  evidence_.Discard();
  Begin(Stage::kCanary, 10, 1);  // after a kill
  Good(400);
  EXPECT_EQ(VerdictOf(*evidence_.Collect(10'000, true)), Verdict::kInconclusive);
}

TEST_F(LiveEvidenceTest, ALineThatStandsForSeveralIsAsManyMissing) {
  Begin();
  Good(10);
  Lose("fast", 7);
  const auto collected = evidence_.Collect(10'000, true);
  EXPECT_EQ(collected->lost, 7u);
  EXPECT_EQ(collected->summary.sources[0].requests, 17u);
}

TEST_F(LiveEvidenceTest, GrowsAndIsCollectedWhereItHasGrownEnough) {
  Begin();
  Good(1);
  EXPECT_TRUE(evidence_.Collect(0, false)) << "the first at once";
  Good(24);
  EXPECT_FALSE(evidence_.Collect(1, false));
  Good(1);
  EXPECT_EQ(evidence_.Collect(2, false)->summary.requests.size(), 26u);
  Good(1);
  EXPECT_FALSE(evidence_.Collect(3, false));
  EXPECT_TRUE(evidence_.Collect(600'002, false)) << "after a while a little is enough";
  EXPECT_FALSE(evidence_.Collect(2'000'000, true)) << "nothing new";
  Begin();  // the same stage
  Good(1);
  EXPECT_EQ(evidence_.Collect(3'000'000, true)->summary.requests.size(), 28u);
  Begin(Stage::kCanary, 8);  // the next step
  Good(2);
  EXPECT_EQ(evidence_.Collect(4'000'000, true)->summary.requests.size(), 2u);
}

}  // namespace
}  // namespace kcc
