// One measurement for several contracts: each is judged as from a measurement of its own.
#include <gtest/gtest.h>

#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"

namespace kcc {
namespace {

using testing::Evidence;
using testing::JudgedRequest;

Contract ContractOf(const std::string& spec) {
  ReadOutcome outcome = ReadContract(
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: c, version: 1.0.0}\nspec:\n" +
      spec);
  KCC_CHECK(outcome.contract.has_value());
  return std::move(*outcome.contract);
}

// The same names for other slices, thresholds, windows and what is believed.
const std::vector<std::string> kSpecs = {
    R"(
  slices: [{name: x, where: "token.position >= 3"}, {name: y, where: "kept == true"}]
  assumptions: {tokensMax: 8}
  numerical:
    - {id: A, metric: mean_kl, atMost: 0.05, slices: [x, y], level: L2}
    - {id: B, metric: p95_kl, atMost: 0.09, exceedance: 5%, window: 4 requests, slices: [all, x], level: L1}
    - {id: C, metric: mean_tv, atMost: 0.5, level: L3}
)",
    R"(
  slices: [{name: x, where: "kept == true"}, {name: z, where: "token.position >= 3"}]
  assumptions: {tokensMax: 16}
  evidence: {trust: [ordinal]}
  numerical:
    - {id: A, metric: mean_kl, atMost: 0.04, slices: [x, z], level: L3}
    - {id: B, metric: p95_kl, atMost: 0.07, exceedance: 5%, window: request, slices: [all, x], level: L1}
    - {id: D, metric: p90_tv, atMost: 0.25, slices: [x], level: L2}
)",
    R"(
  metrics: [{name: wait, from: "latency_ms - ttft_ms", direction: lower, unit: ms}]
  runtime: [{id: R, metric: p90_wait, atMost: 30, level: L1}]
  numerical: [{id: A, metric: max_kl, atMost: 0.2, level: L2}]
)"};

Evidence AnyEvidence() {
  Evidence evidence;
  for (int i = 0; i < 40; ++i) {
    JudgedRequest& request = evidence.Add();
    request.Both("ordinal", double(i));
    request.Both("kept", i % 3 != 0);
    for (int token = 0; token < 6; ++token) {
      const double kl = 0.01 * ((i * 7 + token * 5) % 11);
      request.tokens.emplace_back().Set("kl", kl).Set("tv", 2 * kl);
    }
  }
  return evidence;
}

void ExpectSame(const Judgement& a, const Judgement& b) {
  ASSERT_EQ(a.clauses.size(), b.clauses.size());
  EXPECT_EQ(a.verdict, b.verdict);
  EXPECT_EQ(a.health, b.health);
  EXPECT_EQ(a.warnings, b.warnings);
  for (size_t i = 0; i < a.clauses.size(); ++i) {
    ASSERT_EQ(a.clauses[i].slices.size(), b.clauses[i].slices.size());
    for (size_t j = 0; j < a.clauses[i].slices.size(); ++j) {
      const SliceVerdict& one = a.clauses[i].slices[j];
      const SliceVerdict& other = b.clauses[i].slices[j];
      const std::string where = a.clauses[i].id + " on " + one.slice;
      EXPECT_EQ(one.verdict(), other.verdict()) << where;
      EXPECT_EQ(one.about.reason, other.about.reason) << where;
      EXPECT_EQ(one.other.reason, other.other.reason) << where;
      EXPECT_EQ(one.value.lo, other.value.lo) << where;
      EXPECT_EQ(one.value.hi, other.value.hi) << where;
    }
  }
}

TEST(SeveralContracts, AreJudgedAsFromAMeasurementOfTheirOwn) {
  std::vector<Contract> contracts;
  for (const std::string& spec : kSpecs) contracts.push_back(ContractOf(spec));
  // Own metrics are computed by the recorder, which this evidence does not pass through.
  contracts.pop_back();
  const Evidence evidence = AnyEvidence();
  for (size_t first = 0; first < contracts.size(); ++first) {
    std::vector<Contract> also = contracts;
    also.erase(also.begin() + static_cast<std::ptrdiff_t>(first));
    const Summary wide = testing::Measure(Plan::FromContracts(contracts[first], also), evidence);
    for (const Contract& contract : contracts) {
      const Summary own = testing::Measure(contract, evidence);
      for (const Stage stage : {Stage::kOffline, Stage::kCanary}) {
        const JudgeOptions options{.stage = stage, .about = {}};
        ExpectSame(Judge(contract, wide, options), Judge(contract, own, options));
      }
    }
  }
}

// A name that stands for two metrics is measured as the first one means it, and the other contract
// hears of it.
TEST(SeveralContracts, AMetricOfOneNameIsTheFirstContracts) {
  const Contract first = ContractOf(kSpecs[2]);
  std::string spec = kSpecs[2];
  spec.replace(spec.find("latency_ms - ttft_ms"), 20, "latency_ms + ttft_ms");
  const Contract second = ContractOf(spec);
  const Plan plan = Plan::FromContracts(first, std::span(&second, 1));
  EXPECT_TRUE(plan.Covers(Plan::FromContract(first)).has_value());
  EXPECT_FALSE(plan.Covers(Plan::FromContract(second)).has_value());
  const Judgement judgement = Judge(second, Summary(plan));
  ASSERT_EQ(judgement.clauses.size(), 2u);
  for (const ClauseVerdict& clause : judgement.clauses) {
    EXPECT_NE(clause.verdict, Verdict::kSatisfied) << clause.id;
  }
}

}  // namespace
}  // namespace kcc
