// Promotions on evidence that the register holds, from a proposal to a rollback.
#include "kcc/register/promotions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/contract/canonical.h"
#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/register/record.h"
#include "kcc/register/register_test_data.h"
#include "kcc/register/register_test_server.h"
#include "kcc/register/verify.h"
#include "kcc/summary/file.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kContractText = R"(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: c, version: 1.0.0}
spec:
  numerical:
    - {id: N-1, metric: mean_kl, atMost: 0.01, exceedance: 10%, window: request, level: L3}
)";

constexpr std::string_view kPolicyText = R"(
apiVersion: kcc/v1
kind: PromotionPolicy
metadata: {name: p, version: 1.0.0}
spec:
  coolDown: 1h
  offline: {deadline: 10h, onDeadline: reject}
  shadow: {minRequests: 100}
  canary: {steps: [{traffic: 10%}], minRequests: 100}
  full: {minRequests: 100}
)";

class PromotionsTest : public OnEachBackend {
 protected:
  PromotionsTest() : contract_(*ReadContract(kContractText).contract) {}

  // Requests first to last - 1, all of them with this KL.
  Summary Measured(int first, int last, double kl, const std::string& infer) const {
    testing::Evidence evidence;
    for (int i = first; i < last; ++i) {
      testing::JudgedRequest& request = evidence.Add();
      request.train.id = request.infer.id = "r-" + std::to_string(i);
      request.tokens.emplace_back().Set("kl", kl);
    }
    evidence.change_source = [&](Source* source) {
      source->train.kernel_fingerprint = "train-1";
      source->infer.kernel_fingerprint = infer;
      source->train.model_digest = source->infer.model_digest = MadeUpDigest(1);
      source->train.identity = MadeUpDigest(2);
      source->infer.identity = MadeUpDigest(static_cast<uint64_t>(100 + first));
    };
    return testing::Measure(contract_, evidence);
  }

  // What `kcc run --stage … --register …` does.
  void Record(Register& target, Stage stage, const Summary& summary) {
    const Judgement judgement = Judge(contract_, summary, {.stage = stage, .about = {}});
    const JudgedRun run{.contract = contract_,
                        .contract_source = std::string(kContractText),
                        .summary = summary,
                        .judgement = judgement,
                        .report = "{\"number\":" + std::to_string(++reports_) + "}",
                        .model = {},
                        .kcc_version = "test",
                        .actor = "ci",
                        .time_ms = now_.time_ms};
    std::string warning;
    const auto head = target.Update([&](Register& seen) { return RecordRun(seen, run, &warning); });
    ASSERT_TRUE(head.has_value()) << head.error().Format();
  }

  std::string TripleOf(const std::string& infer) const {
    return TripleId({MadeUpDigest(1), "train-1", infer, ContractDigest(contract_)});
  }

  // Records offline evidence of the build, so that its triple is known, and proposes it.
  PromotionChange Started(Register& target, const std::string& id, const std::string& infer,
                          int first) {
    Record(target, Stage::kOffline, Measured(first, first + 20, 0.001, infer));
    PromotionStart start;
    start.id = id;
    start.lane = "chat";
    start.candidate = TripleOf(infer);
    start.policy_text = kPolicyText;
    const auto change = StartPromotion(target, start, now_);
    EXPECT_TRUE(change.has_value()) << change.error().Format();
    return change.has_value() ? *change : PromotionChange();
  }

  PromotionChange Advanced(Register& target, const std::string& id) {
    now_.time_ms += 1000;
    const auto change = AdvancePromotion(target, id, now_);
    EXPECT_TRUE(change.has_value()) << change.error().Format();
    return change.has_value() ? *change : PromotionChange();
  }

  Phase PhaseOf(Register& target, const std::string& id) {
    return ReadPromotion(target, id)->state.phase;
  }

  // Through offline and shadow, with 150 requests from 1000 on.
  void ToCanary(Register& target) {
    Started(target, "p-1", "infer-1", 0);
    Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
    Advanced(target, "p-1");
    Record(target, Stage::kShadow, Measured(1000, 1150, 0.001, "infer-1"));
    Advanced(target, "p-1");
    ASSERT_EQ(PhaseOf(target, "p-1"), Phase::kCanary);
  }

  const Contract contract_;
  Proposer now_{"ada", 1'700'000'000'000};
  int reports_ = 0;
};

TEST_P(PromotionsTest, EvidenceFromBeforeTheProposalDoesNotCount) {
  Register target = Create();
  EXPECT_EQ(Started(target, "p-1", "infer-1", 0).state.phase, Phase::kOffline);
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline);
}

TEST_P(PromotionsTest, GoesThroughEveryStageOnEvidenceOfItsOwn) {
  Register target = Create();
  ToCanary(target);
  Record(target, Stage::kCanary, Measured(2000, 2150, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kFull);
  Record(target, Stage::kFull, Measured(3000, 3150, 0.001, "infer-1"));
  EXPECT_TRUE(Advanced(target, "p-1").state.settled);
  const auto check = Verify(target);
  ASSERT_TRUE(check.has_value());
  EXPECT_TRUE(check->ok()) << check->first_break->what;
  const auto history = ReadHistory(target, "p-1");
  ASSERT_TRUE(history.has_value());
  EXPECT_EQ(history->front().from, "none");
  EXPECT_EQ(history->back().to, "full");
}

TEST_P(PromotionsTest, ShardsOfAStepAreJoined) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  Advanced(target, "p-1");
  Record(target, Stage::kShadow, Measured(1000, 1060, 0.001, "infer-1"));
  const PromotionChange waits = Advanced(target, "p-1");
  EXPECT_EQ(waits.state.phase, Phase::kShadow);
  EXPECT_EQ(waits.state.progress.requests, 60);
  Record(target, Stage::kShadow, Measured(1060, 1150, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kCanary);
  EXPECT_EQ(ReadPromotion(target, "p-1")->state.passed.back().requests, 150);
  const auto check = Verify(target);
  EXPECT_TRUE(check->ok()) << check->first_break->what;
}

TEST_P(PromotionsTest, OverlappingShardsDoNotCount) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  Advanced(target, "p-1");
  Record(target, Stage::kShadow, Measured(1000, 1060, 0.001, "infer-1"));
  Advanced(target, "p-1");
  Record(target, Stage::kShadow, Measured(1030, 1190, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kShadow);
  // One that holds everything the step has is the step's evidence, grown.
  Record(target, Stage::kShadow, Measured(1000, 1150, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kCanary);
}

TEST_P(PromotionsTest, RequestsOfAStageThatWasPassedDoNotCountAgain) {
  Register target = Create();
  ToCanary(target);
  Record(target, Stage::kCanary, Measured(1000, 1150, 0.001, "infer-1"));
  Record(target, Stage::kCanary, Measured(1100, 1300, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kCanary);
}

TEST_P(PromotionsTest, EvidenceRecordedBeforeTheStageBeganDoesNotCount) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  Record(target, Stage::kShadow, Measured(1000, 1150, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kShadow);
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kShadow);
}

TEST_P(PromotionsTest, SilenceWritesNothingAndMovesNothing) {
  Register target = Create();
  ToCanary(target);
  const Head before = *target.ReadHead();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kCanary);
  EXPECT_EQ(*target.ReadHead(), before);
}

TEST_P(PromotionsTest, AViolatedL3InCanaryRollsBack) {
  Register target = Create();
  ToCanary(target);
  Record(target, Stage::kCanary, Measured(2000, 2150, 0.5, "infer-1"));
  const PromotionChange change = Advanced(target, "p-1");
  EXPECT_EQ(change.state.phase, Phase::kRolledBack);
  EXPECT_FALSE(CandidateServes(change.state));
  EXPECT_THAT(change.state.reason, HasSubstr("N-1"));
}

TEST_P(PromotionsTest, ARolledBackTripleTriesAgainAfterItsCoolDownOnNewEvidence) {
  Register target = Create();
  ToCanary(target);
  Record(target, Stage::kCanary, Measured(2000, 2150, 0.5, "infer-1"));
  ASSERT_EQ(Advanced(target, "p-1").state.phase, Phase::kRolledBack);
  PromotionStart start;
  start.id = "p-1";
  start.lane = "chat";
  start.candidate = TripleOf("infer-1");
  start.policy_text = kPolicyText;
  for (const char* name : {"p-1", "p-2"}) {  // another name is no way around it
    start.id = name;
    EXPECT_THAT(StartPromotion(target, start, now_).error().message(),
                HasSubstr("it cools down for 1h more"));
  }
  Record(target, Stage::kOffline, Measured(300, 320, 0.001, "infer-1"));
  now_.time_ms += 3'600'000;
  start.id = "p-1";
  const auto again = StartPromotion(target, start, now_);
  ASSERT_TRUE(again.has_value()) << again.error().Format();
  EXPECT_EQ(again->state.phase, Phase::kOffline);
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline) << "recorded before it";
  Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline) << "counted in the first try";
  Record(target, Stage::kOffline, Measured(400, 420, 0.001, "infer-1"));
  EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kShadow);
}

TEST_P(PromotionsTest, CandidatesOfALaneTakeTurns) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  EXPECT_EQ(Started(target, "p-2", "infer-2", 500).state.phase, Phase::kProposed);
  PromotionEvent abort;
  abort.kind = PromotionEventKind::kAbort;
  abort.at_ms = now_.time_ms;
  abort.by = "ada";
  const auto change = SendEvent(target, "p-1", abort, now_);
  ASSERT_TRUE(change.has_value()) << change.error().Format();
  ASSERT_TRUE(change->started_next.has_value());
  EXPECT_EQ(change->started_next->id, "p-2");
  EXPECT_EQ(PhaseOf(target, "p-2"), Phase::kOffline);
}

TEST_P(PromotionsTest, WhatIsNotThereIsSaid) {
  Register target = Create();
  EXPECT_THAT(ReadPromotion(target, "p-9").error().message(),
              HasSubstr("there is no promotion 'p-9'"));
  PromotionStart start;
  start.id = "p-1";
  start.lane = "chat";
  start.candidate = MadeUpDigest(7);
  start.policy_text = kPolicyText;
  EXPECT_THAT(StartPromotion(target, start, now_).error().message(),
              HasSubstr("the register has no triple"));
  Started(target, "p-1", "infer-1", 0);
  start.candidate = TripleOf("infer-1");
  EXPECT_THAT(StartPromotion(target, start, now_).error().message(),
              HasSubstr("there is a promotion 'p-1' already"));
}

// A step whose evidence was removed cannot be looked at again, and says so.
TEST_P(PromotionsTest, RemovedEvidenceIsNamed) {
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  const Summary summary = Measured(100, 120, 0.001, "infer-1");
  Record(target, Stage::kOffline, summary);
  const std::string blob = BlobDigest(EncodeSummary(summary));
  const auto removed =
      target.Append({{EventOf("blob.removed", BodyOf({{"blob", blob}, {"why", "redacted"}}))}, {}},
                    *target.ReadHead());
  ASSERT_TRUE(removed.has_value()) << removed.error().Format();
  const auto change = AdvancePromotion(target, "p-1", now_);
  ASSERT_FALSE(change.has_value());
  EXPECT_THAT(change.error().message(), HasSubstr("is no longer stored"));
}

INSTANTIATE_TEST_SUITE_P(On, PromotionsTest,
                         ::testing::Values(Backend::kSqlite, Backend::kPostgres), BackendName);

}  // namespace
}  // namespace kcc
