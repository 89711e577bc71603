#include "kcc/experiment/pair_judge.h"

#include <gtest/gtest.h>

#include "kcc/lab/lab_test_data.h"

namespace kcc {
namespace {

using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::SmallConfig;
using testing::Switches;

Clause ClauseOf(const char* id, const char* metric, double at_most) {
  Clause clause;
  clause.id = id;
  clause.metric = *ParseMetric(metric);
  clause.threshold = at_most;
  clause.slices = {"all", "long"};
  clause.stages = {Stage::kOffline};
  return clause;
}

Contract ContractOf(std::vector<Clause> clauses) {
  Contract contract;
  contract.name = "c";
  contract.version = "1.0.0";
  contract.slices = {Slice{"all", {}, {}},
                     Slice{"long", *Predicate::Parse("prompt_tokens >= 60"), {}}};
  contract.clauses = std::move(clauses);
  return contract;
}

struct Pair {
  std::vector<KernelRequest> requests = RandomRequests(4, 40, 2);
  ScoredLogits train = Score("train");
  ScoredLogits infer = Score("fp8");

  ScoredLogits Score(const char* kernel) const {
    Checkpoint checkpoint = RandomCheckpoint(SmallConfig());
    checkpoint.digest = "sha256:model";
    const LabSwitches switches = Switches(kernel);
    const auto model = LabModel::Make(checkpoint, switches);
    EXPECT_TRUE(model.has_value());
    auto scored = ScoreInMemory(*model, switches, requests);
    EXPECT_TRUE(scored.has_value()) << scored.error().Format();
    return std::move(*scored);
  }
  ArmPass Judged(const Contract& contract) const {
    ArmPass arm{"fp8", 0, {}};
    const auto done = PairJudge(contract).Judge(train, infer, requests, &arm);
    EXPECT_TRUE(done.has_value()) << done.error().Format();
    return arm;
  }
};

const Pair& Fp8() {
  static const Pair pair;
  return pair;
}

TEST(PairJudge, CountsTheJudgesVerdictsBySliceAndClause) {
  const ArmPass arm =
      Fp8().Judged(ContractOf({ClauseOf("N-1", "mean_kl", 1e9), ClauseOf("N-2", "max_kl", 0)}));
  EXPECT_EQ(arm.regimes, 1);
  ASSERT_EQ(arm.slices.size(), 2u);
  const SlicePass& all = arm.slices[0];
  ASSERT_EQ(all.clauses.size(), 2u);
  EXPECT_EQ(all.clauses[0].counts.satisfied, 1);
  EXPECT_EQ(all.clauses[1].counts.violated, 1);
  // No prompt is that long.
  EXPECT_EQ(arm.slices[1].slice, "long");
  EXPECT_EQ(arm.slices[1].total().empty, 2);
  EXPECT_EQ(arm.slices[1].total().judged(), 0);
}

TEST(PairJudge, WhatOnlyATraceHoldsIsLeftOutWithTheReason) {
  const Contract contract =
      ContractOf({ClauseOf("N-1", "mean_kl", 1), ClauseOf("R-1", "p95_latency_ms", 1),
                  ClauseOf("S-1", "ece_gap", 1), ClauseOf("S-2", "same_output_rate", 1)});
  const auto rates = PairJudge(contract).Rates({Fp8().Judged(contract)});
  const auto& measured = std::get<PassRates>(rates);
  ASSERT_EQ(measured.not_judged.size(), 3u);
  EXPECT_EQ(measured.not_judged[0].clause, "R-1");
  EXPECT_NE(measured.not_judged[0].why.find("no trace"), std::string::npos);
  EXPECT_NE(measured.not_judged[1].why.find("labels"), std::string::npos);
  EXPECT_NE(measured.not_judged[2].why.find("continuations"), std::string::npos);
  EXPECT_EQ(measured.arms[0].slices[0].clauses.size(), 1u);
}

TEST(PairJudge, AContractWithoutSuchAClauseHasNoPassRates) {
  Contract contract = ContractOf({ClauseOf("R-1", "p95_latency_ms", 1)});
  EXPECT_EQ(Fp8().Judged(contract).regimes, 0);
  EXPECT_FALSE(std::get<NotMeasured>(PairJudge(contract).Rates({})).why.empty());
  contract.clauses = {ClauseOf("N-1", "mean_kl", 1)};
  contract.clauses[0].stages = {Stage::kCanary};
  EXPECT_EQ(Fp8().Judged(contract).regimes, 0);
}

// As kcc run: a contract that binds other evidence is not judged on this one.
TEST(PairJudge, EvidenceThatTheContractDoesNotBindIsAnError) {
  Contract contract = ContractOf({ClauseOf("N-1", "mean_kl", 1e9)});
  contract.request_set = RequestSetOf(Fp8().requests).Digest();
  contract.infer = {{"engine", "kcc-lab"}, {"kv", "e4m3"}};
  EXPECT_EQ(Fp8().Judged(contract).slices[0].total().satisfied, 1);
  contract.infer = {{"kv", "bf16"}};
  EXPECT_EQ(Fp8().Judged(contract).slices[0].total().error, 1);
  contract.infer = {};
  contract.request_set = RequestSetOf(std::span(Fp8().requests).first(2)).Digest();
  EXPECT_EQ(Fp8().Judged(contract).slices[0].total().error, 1);
}

}  // namespace
}  // namespace kcc
