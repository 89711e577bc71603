#include "kcc/experiment/e2.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kcc/lab/lab_test_data.h"

namespace kcc {
namespace {

using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::SmallConfig;

Clause KlClause(double at_most) {
  Clause clause;
  clause.id = "N-1";
  clause.metric = *ParseMetric("mean_kl");
  clause.threshold = at_most;
  clause.slices = {"all", "long"};
  clause.stages = {Stage::kOffline};
  return clause;
}

Contract ContractOf(double kl) {
  Contract contract;
  contract.name = "c";
  contract.version = "1.0.0";
  contract.slices = {Slice{"all", {}, {}},
                     Slice{"long", *Predicate::Parse("prompt_tokens >= 60"), {}}};
  contract.clauses = {KlClause(kl)};
  return contract;
}

E2Options SmallOptions(const Contract& contract) {
  E2Options options;
  options.engines = {"f32", "fp8", "bf16?rope=bf16"};
  options.lengths = {{0, 6}, {200, 5}};
  options.loads = {{1, false}, {4, false}, {4, true}};
  options.slices = contract.slices;
  return options;
}

E2Result Swept(double kl) {
  const Contract contract = ContractOf(kl);
  auto made = RunE2(RandomCheckpoint(SmallConfig()), RandomRequests(6, 50, 2), contract,
                    SmallOptions(contract));
  EXPECT_TRUE(made.has_value()) << made.error().Format();
  return std::move(*made);
}

TEST(E2, EveryRegimeIsRunAndPressureReallyPreempts) {
  const E2Result result = Swept(1e-3);
  ASSERT_EQ(result.rows.size(), 3u * 3u * 2u);
  uint64_t calm = 0, pressed = 0;
  for (const E2Row& row : result.rows) {
    (result.loads[row.load].pressed ? pressed : calm) += row.preemptions;
    EXPECT_EQ(&row, &result.row(row.engine, row.load, row.length));
    EXPECT_EQ(row.by_slice[0].requests, row.length == 0 ? 6 : 5);
    EXPECT_EQ(row.by_slice[1].requests, row.length == 0 ? 0 : 5);
  }
  EXPECT_EQ(calm, 0u);
  EXPECT_GT(pressed, 0u);
}

TEST(E2, ThresholdsDecideWhatPasses) {
  const E2Result loose = Swept(1e9);
  const E2Result tight = Swept(0);
  for (size_t i = 0; i < loose.rows.size(); ++i) {
    const E2Cell& pass = loose.rows[i].by_slice[0];
    EXPECT_EQ(pass.passing, pass.requests);
    EXPECT_FALSE(pass.fails());
    const E2Cell& fail = tight.rows[i].by_slice[0];
    EXPECT_EQ(fail.passing, 0);
    EXPECT_TRUE(fail.fails());
  }
  EXPECT_NE(E2Page(tight).find("class=\"h0\""), std::string::npos);
  EXPECT_NE(E2Page(loose).find("class=\"h4\""), std::string::npos);
  EXPECT_EQ(RoutingRule(loose, 0, 0), "any");
  EXPECT_EQ(RoutingRule(tight, 0, 0), "none");
}

TEST(E2, ABatchInvariantEngineHasOneAnswerUnderAnyLoad) {
  const E2Result result = Swept(1e-3);
  for (size_t n = 0; n < result.lengths.size(); ++n) {
    for (size_t w = 1; w < result.loads.size(); ++w) {
      for (size_t s = 0; s < result.slices.size(); ++s) {
        EXPECT_EQ(result.row(0, w, n).by_slice[s].use, result.row(0, 0, n).by_slice[s].use);
      }
    }
  }
}

TEST(E2, CellsNearTheirThresholdAreMarked) {
  const double use = Swept(1).row(1, 0, 0).by_slice[0].use;  // the mean KL itself
  const E2Result narrow = Swept(use / 0.9);
  EXPECT_TRUE(narrow.row(1, 0, 0).by_slice[0].narrow());
  EXPECT_FALSE(narrow.row(1, 0, 0).by_slice[0].fails());
  const E2Result missed = Swept(use / 1.1);
  EXPECT_TRUE(missed.row(1, 0, 0).by_slice[0].narrow());
  EXPECT_TRUE(missed.row(1, 0, 0).by_slice[0].fails());
  EXPECT_NE(E2Page(narrow).find("△</td>"), std::string::npos);
  EXPECT_NE(E2Page(missed).find("▽</td>"), std::string::npos);
  EXPECT_NE(E2Markdown(missed).find("▽ fails narrowly"), std::string::npos);
  EXPECT_NE(E2Json(missed).find("\"narrow\""), std::string::npos);
}

TEST(E2, ReportsEveryEngineInTheTemplate) {
  const E2Result result = Swept(1e-3);
  const ExperimentReport report = E2Report(result);
  EXPECT_EQ(report.findings.size(), E2Findings(result).size());
  ASSERT_EQ(report.requests.size(), result.lengths.size());
  EXPECT_NE(report.requests[0].digest, report.requests[1].digest);
  const auto& rates = std::get<PassRates>(report.pass_rates);
  ASSERT_EQ(rates.arms.size(), 1 + result.engines.size());
  for (size_t e = 0; e < result.engines.size(); ++e) {
    const ArmPass& arm = rates.arms[1 + e];
    EXPECT_EQ(arm.arm, "lab:" + result.engines[e]);
    EXPECT_EQ(arm.regimes, 6);  // three loads of two lengths
    // The judge says of every regime what E2's own cell says: it has one clause, a mean.
    for (size_t s = 0; s < result.slices.size(); ++s) {
      int64_t judged = 0, failed = 0;
      for (const E2Row& row : result.rows) {
        if (row.engine != e || row.by_slice[s].requests == 0) continue;
        ++judged;
        failed += row.by_slice[s].fails();
      }
      EXPECT_EQ(arm.slices[s].total().judged(), judged);
      EXPECT_EQ(arm.slices[s].total().violated, failed);
      EXPECT_EQ(arm.slices[s].total().empty, 6 - judged);
    }
  }
  // One row for the baseline, which served one load, and one for each engine under each load.
  const auto& work = std::get<std::vector<ArmCost>>(report.work);
  ASSERT_EQ(work.size(), 1 + result.engines.size() * result.loads.size());
  EXPECT_EQ(work[3].regime, "4 at once, under pressure");
  EXPECT_GT(work[3].figures[1].value, work[2].figures[1].value);  // preempted, so computed again
  EXPECT_EQ(work[3].figures[1].baseline, std::nullopt);
}

TEST(E2, UseOfAThreshold) {
  const auto clause = [](const char* metric, BoundKind bound, double threshold) {
    E2Clause made;
    made.metric = *ParseMetric(metric);
    made.bound = bound;
    made.threshold = threshold;
    return made;
  };
  struct Case {
    const char* metric;
    BoundKind bound;
    double threshold, value, use;
  };
  const Case cases[] = {
      {"mean_kl", BoundKind::kAtMost, 0.01, 0.005, 0.5},
      {"mean_kl", BoundKind::kAtMost, 0, 0, 0},
      {"mean_kl", BoundKind::kAtMost, 0, 1e-9, INFINITY},
      {"mean_top1_overlap", BoundKind::kAtLeast, 0.99, 0.995, 0.5},
      {"mean_top1_overlap", BoundKind::kAtLeast, 0.99, 0.98, 2},
      {"mean_top1_overlap", BoundKind::kAtLeast, 1, 1, 0},
      {"mean_top1_overlap", BoundKind::kAtLeast, 1, 0.999, INFINITY},
      {"min_entropy", BoundKind::kAtLeast, 2, 4, 0.5},
      {"min_entropy", BoundKind::kAtLeast, 2, 1, 2},
  };
  for (const Case& c : cases) {
    const double use = ThresholdUse(clause(c.metric, c.bound, c.threshold), c.value);
    if (std::isinf(c.use)) {
      EXPECT_TRUE(std::isinf(use)) << c.metric << " " << c.value;
    } else {
      EXPECT_NEAR(use, c.use, 1e-9) << c.metric << " " << c.value;
    }
  }
}

TEST(E2, WhatCannotBeRunIsSaid) {
  const Checkpoint model = RandomCheckpoint(SmallConfig());
  const std::vector<KernelRequest> requests = RandomRequests(6, 50, 2);
  const auto message = [&](const Contract& contract, const E2Options& options, size_t count = 6) {
    const auto made = RunE2(model, std::span(requests).first(count), contract, options);
    return made.has_value() ? std::string() : made.error().message();
  };
  const Contract contract = ContractOf(1);
  Contract empty = contract;
  empty.clauses.clear();
  EXPECT_NE(message(empty, SmallOptions(empty)).find("no clause about"), std::string::npos);
  E2Options options = SmallOptions(contract);
  EXPECT_NE(message(contract, options, 1).find("at least two"), std::string::npos);
  options.lengths = {{400, 2}};
  EXPECT_NE(message(contract, options).find("512 positions"), std::string::npos);
  options = SmallOptions(contract);
  options.engines = {"fp9"};
  EXPECT_NE(message(contract, options).find("no kernel 'fp9'"), std::string::npos);
}

}  // namespace
}  // namespace kcc
