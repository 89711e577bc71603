// From contracts and real judgements to what the machine reads; the shipped contracts under the
// shipped policy.
#include "kcc/promotion/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/base/file.h"
#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/promotion/plan.h"
#include "kcc/promotion/promotion_test_data.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PromotionPolicy ShippedPolicy() {
  return *ReadPolicy(*ReadFile("policies/promotion.yaml", kContractBytesMax)).policy;
}

Contract ShippedContract(const std::string& name) {
  return *ReadContractFile("contracts/" + name + ".yaml")->outcome.contract;
}

PromotionPolicy WithoutClean(PromotionPolicy policy) {
  for (StagePolicy& stage : policy.stages) stage.clean.reset();
  return policy;
}

// Everything that samples can certify satisfied, everything else clean: the best evidence there is.
Phase AfterShadow(const PromotionPolicy& policy, const Contract& contract) {
  auto state = Propose(
      policy,
      {"p", "lane", "ada", testing::Candidate(), testing::Incumbent(), AskedOf(contract), {}, 0});
  KCC_CHECK(state.has_value());
  testing::Walk walk(policy, *state);
  walk.Start();
  const auto best = [&](Stage stage) {
    PromotionEvent event = testing::GoodEvaluation(walk.state, stage);
    std::erase_if(event.evaluation.clauses, [&](const ClauseFinding& row) {
      const Clause* clause = contract.FindClause(row.id);
      return std::find(clause->stages.begin(), clause->stages.end(), stage) == clause->stages.end();
    });
    if (stage == Stage::kOffline) {
      for (ClauseFinding& row : event.evaluation.clauses) row.verdict = Verdict::kSatisfied;
    }
    walk.Take(event);
  };
  best(Stage::kOffline);
  EXPECT_EQ(walk.state.phase, Phase::kShadow) << walk.last.note;
  best(Stage::kShadow);
  return walk.state.phase;
}

TEST(ShippedContracts, LeaveShadowByCleanRequestsAndNotWithoutThem) {
  for (const char* name : {"fp8-serving", "heterogeneous-fleet", "lab"}) {
    const Contract contract = ShippedContract(name);
    EXPECT_EQ(AfterShadow(ShippedPolicy(), contract), Phase::kCanary) << name;
    EXPECT_EQ(AfterShadow(WithoutClean(ShippedPolicy()), contract), Phase::kShadow) << name;
    EXPECT_THAT(CheckPolicyAgainst(ShippedPolicy(), contract), IsEmpty()) << name;
    EXPECT_FALSE(CheckPolicyAgainst(WithoutClean(ShippedPolicy()), contract).empty()) << name;
  }
}

TEST(PolicyPlan, NamesWhatAStageCannotDecide) {
  const Contract contract = ShippedContract("fp8-serving");
  std::vector<std::string> undecidable;
  for (const StagePlan& plan : PlanOf(WithoutClean(ShippedPolicy()), &contract)) {
    if (plan.stage == Stage::kShadow) undecidable = plan.undecidable;
    if (plan.stage == Stage::kOffline) {
      EXPECT_THAT(plan.undecidable, IsEmpty()) << "offline the evaluation set is the population";
    }
  }
  EXPECT_THAT(undecidable, ElementsAre("O-1", "O-2", "O-3"));
  PromotionPolicy wrong = ShippedPolicy();
  wrong.enforce = {{"N-11", Enforce::kOff, {}}};
  const std::vector<Diagnostic> found = CheckPolicyAgainst(wrong, contract);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "unknown-clause");
  EXPECT_THAT(found[0].hint, ::testing::HasSubstr("N-1"));
}

TEST(PolicyPlan, WarnsOfAStageInWhichNothingCounts) {
  const PromotionPolicy policy = testing::PolicyOf("  offline: {levels: [L1]}\n  full: {}\n");
  const std::vector<Diagnostic> found =
      CheckPolicyAgainst(policy, ShippedContract("heterogeneous-fleet"));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].code, "nothing-counts");
}

// --- With the real judge.

Contract HardContract() {
  const ReadOutcome outcome = ReadContract(
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: a, version: 1.0.0}\nspec:\n"
      "  numerical:\n"
      "    - {id: MEAN, metric: mean_kl, atMost: 0.5, level: L3}\n"
      "    - {id: MAX, metric: max_kl, atMost: 2, level: L2}\n"
      "    - {id: SOFT, metric: mean_kl, atMost: 0.5, exceedance: 5%, level: L2}\n"
      "  runtime:\n"
      "    - {id: FAIL, metric: failure_rate, atMost: 0, level: L3}\n");
  KCC_CHECK(outcome.contract.has_value());
  return *outcome.contract;
}

struct Made {
  double kl = 0.1;
  int failed = 0;  // -1: not recorded
  size_t requests = 200;
  double last_kl = 0.1;
};

Evaluation EvaluationFrom(const Made& made, bool audited = true) {
  const Contract contract = HardContract();
  testing::Evidence evidence;
  for (size_t i = 0; i < made.requests; ++i) {
    testing::JudgedToken token;
    token.Set("kl", i + 1 == made.requests ? made.last_kl : made.kl);
    testing::JudgedRequest& request = evidence.Add();
    request.tokens = {token, token};
    if (made.failed >= 0) {
      request.Both("failed", RequestValue(static_cast<int>(i) < made.failed));
    }
  }
  const Contract audit = AuditContract(contract);
  const JudgeOptions options{.stage = Stage::kShadow, .about = {}};
  const Judgement judgement = Judge(contract, testing::Measure(contract, evidence), options);
  const Judgement twin = Judge(audit, testing::Measure(audit, evidence), options);
  return EvaluationOf(contract, judgement, audited ? &twin : nullptr,
                      {testing::Digest("e"), "", static_cast<int64_t>(made.requests), "c"});
}

const ClauseFinding& Of(const Evaluation& evaluation, std::string_view id) {
  for (const ClauseFinding& row : evaluation.clauses) {
    if (row.id == id) return row;
  }
  KCC_CHECK(false);
  return evaluation.clauses[0];
}

TEST(EvaluationOf, CountsCleanRequestsOfWhatNoSampleCertifies) {
  const Evaluation evaluation = EvaluationFrom({});
  EXPECT_EQ(evaluation.test, TestKind::kAnytime);
  EXPECT_EQ(evaluation.stage, Stage::kShadow);
  EXPECT_EQ(Of(evaluation, "SOFT").verdict, Verdict::kSatisfied);
  for (const char* id : {"MEAN", "MAX", "FAIL"}) {
    EXPECT_EQ(Of(evaluation, id).verdict, Verdict::kInconclusive) << id;
    EXPECT_EQ(Of(evaluation, id).audited, 200) << id;
    EXPECT_EQ(Of(evaluation, id).exceeding, 0) << id;
  }
}

TEST(EvaluationOf, OneRequestBeyondIsNotCleanThoughTheMeanHolds) {
  const Evaluation evaluation =
      EvaluationFrom({.kl = 0.1, .failed = 0, .requests = 200, .last_kl = 1});
  EXPECT_EQ(Of(evaluation, "MEAN").verdict, Verdict::kInconclusive);
  EXPECT_EQ(Of(evaluation, "MEAN").exceeding, 1);
  EXPECT_EQ(Of(evaluation, "MEAN").audited, 0);
  EXPECT_EQ(Of(evaluation, "MAX").exceeding, 0);
}

TEST(EvaluationOf, WithoutAnAuditNothingOfAMeanIsClean) {
  EXPECT_EQ(Of(EvaluationFrom({}, false), "MEAN").audited, 0);
}

TEST(EvaluationOf, WhatIsMissingIsNotClean) {
  const Evaluation evaluation =
      EvaluationFrom({.kl = 0.1, .failed = -1, .requests = 200, .last_kl = 0.1});
  EXPECT_NE(Of(evaluation, "FAIL").verdict, Verdict::kSatisfied);
  EXPECT_EQ(Of(evaluation, "FAIL").audited, 0);
}

TEST(EvaluationOf, AnExceedanceOfAHardCountIsAProof) {
  const Evaluation evaluation =
      EvaluationFrom({.kl = 0.1, .failed = 1, .requests = 200, .last_kl = 5});
  EXPECT_EQ(Of(evaluation, "FAIL").verdict, Verdict::kViolated);
  EXPECT_EQ(Of(evaluation, "MAX").verdict, Verdict::kViolated);
  EXPECT_THAT(Of(evaluation, "MAX").reason, ::testing::HasSubstr("on slice all"));
}

// What is called never certified the judge never certifies, and the rest it does on good evidence.
TEST(AskedOf, AgreesWithTheJudge) {
  for (const std::string assumptions : {"", "  assumptions: {tokensMax: 4}\n"}) {
    const ReadOutcome outcome = ReadContract(
        "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: a, version: 1.0.0}\nspec:\n" +
        assumptions +
        "  numerical:\n"
        "    - {id: mean, metric: mean_kl, atMost: 0.5, level: L1}\n"
        "    - {id: max, metric: max_kl, atMost: 2, level: L1}\n"
        "    - {id: tokens, metric: p90_kl, atMost: 0.5, level: L1}\n"
        "    - {id: bounded, metric: mean_tv, atMost: 0.5, level: L1}\n"
        "    - {id: best, metric: mean_tv, atMost: 0, level: L1}\n"
        "    - {id: soft, metric: mean_kl, atMost: 0.5, exceedance: 5%, level: L1}\n"
        "  statistical:\n"
        "    - {id: flips, metric: flip_rate, atMost: 20%, level: L1}\n"
        "    - {id: gap, metric: refusal_rate_gap, atMost: 20%, level: L1}\n"
        "  runtime:\n"
        "    - {id: p90, metric: p90_latency_ms, atMost: 50, level: L1}\n"
        "    - {id: time, metric: mean_latency_ms, atMost: 50, level: L1}\n"
        "    - {id: slowest, metric: max_latency_ms, atMost: 50, level: L1}\n"
        "    - {id: failures, metric: failure_rate, atMost: 5%, level: L1}\n"
        "    - {id: none, metric: failure_rate, atMost: 0, level: L1}\n");
    ASSERT_TRUE(outcome.contract);
    const Contract& contract = *outcome.contract;
    testing::Evidence evidence;
    for (int i = 0; i < 1000; ++i) {
      testing::JudgedToken token;
      token.Set("kl", 0.1).Set("tv", 0).Set("top1_overlap", 1);
      testing::JudgedRequest& request = evidence.Add();
      request.tokens = {token, token};
      request.Both("failed", RequestValue(false)).Both("refused", RequestValue(false));
      request.Both("latency_ms", RequestValue(5.0));
    }
    const Judgement judgement = Judge(contract, testing::Measure(contract, evidence),
                                      {.stage = Stage::kShadow, .about = {}});
    const std::vector<AskedClause> asked = AskedOf(contract);
    ASSERT_EQ(judgement.clauses.size(), asked.size());
    for (size_t i = 0; i < asked.size(); ++i) {
      EXPECT_EQ(judgement.clauses[i].verdict == Verdict::kSatisfied, asked[i].never.empty())
          << asked[i].id << ": " << judgement.clauses[i].slices[0].about.reason;
    }
  }
}

TEST(AskedOf, KnowsWhichClausesNoSampleCertifies) {
  std::vector<std::string> never;
  for (const AskedClause& asked : AskedOf(HardContract())) {
    if (!asked.never.empty()) never.push_back(asked.id);
  }
  EXPECT_THAT(never, ElementsAre("MEAN", "MAX", "FAIL"));
}

}  // namespace
}  // namespace kcc
