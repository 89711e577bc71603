// What clauses imply, and that two distributions at a clause's threshold do not exceed it.
#include "kcc/bounds/implied.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kcc/contract/reader.h"

namespace kcc {
namespace {

Contract ContractOf(const std::string& clause, const std::string& assumptions) {
  const std::string text =
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: c, version: 1.0.0}\nspec:\n"
      "  assumptions: {" +
      assumptions + "}\n  numerical:\n    - {id: N-1, level: L2, " + clause + "}\n";
  const ReadOutcome outcome = ReadContract(text);
  for (const Diagnostic& d : outcome.diagnostics) {
    if (!outcome.contract) {
      ADD_FAILURE() << d.message << "\n" << text;
    }
  }
  return *outcome.contract;
}

std::vector<Implication> Implied(
    const std::string& clause,
    const std::string& assumptions = "rewardMax: 1, advantageMax: 4, scoreNormMax: 8") {
  const Contract contract = ContractOf(clause, assumptions);
  return ImplicationsOf(contract.clauses[0], contract.assumptions);
}

double ValueOf(const std::vector<Implication>& rows, std::string_view quantity) {
  for (const Implication& row : rows) {
    if (row.quantity == quantity) return row.value;
  }
  return -1;
}

TEST(ImplicationsOf, FollowsTheMetricOfTheClause) {
  struct Case {
    const char* clause;
    double tv;
  };
  const double t = std::tanh(0.1 / 4);
  const Case cases[] = {
      {"metric: max_logit_span, atMost: 0.1", t},
      {"metric: mean_logit_span, atMost: 0.1", t},
      {"metric: max_logit_linf, atMost: 0.05", t},
      {"metric: max_logit_l2, atMost: 0.1", std::tanh(0.1 * std::sqrt(2.0) / 4)},
      // A percentile leaves its share of tokens open; a soft clause a share of windows.
      {"metric: p99_logit_span, atMost: 0.1", 0.99 * t + 0.01},
      {"metric: mean_logit_span, atMost: 0.1, exceedance: 5%", 0.95 * t + 0.05},
      {"metric: p99_logit_span, atMost: 0.1, exceedance: 5%", 0.95 * (0.99 * t + 0.01) + 0.05},
      {"metric: mean_tv, atMost: 0.01", 0.01},
      {"metric: rate_tv, atMost: 0.02", 0.02},
      {"metric: mean_kl, atMost: 0.002", std::sqrt(0.001)},
      {"metric: mean_reverse_kl, atMost: 0.002", std::sqrt(0.001)},
      {"metric: mean_k3, atMost: 0.002", std::sqrt(0.001)},
      {"metric: mean_abs_log_ratio, atMost: 0.02", 0.02},
  };
  for (const Case& c : cases) {
    const auto rows = Implied(c.clause);
    EXPECT_NEAR(ValueOf(rows, "tv"), c.tv, 1e-10) << c.clause;
    EXPECT_GE(ValueOf(rows, "tv"), c.tv * (1 - 1e-15)) << c.clause;
    EXPECT_NEAR(ValueOf(rows, "reward_drift"), 2 * c.tv, 1e-10) << c.clause;
    EXPECT_NEAR(ValueOf(rows, "gradient_bias"), 2 * 4 * 8 * c.tv, 1e-8) << c.clause;
  }
}

TEST(ImplicationsOf, SaysNothingWhereAClauseBoundsNoDrift) {
  EXPECT_TRUE(Implied("metric: p99_latency_ms, atMost: 5").empty());
  EXPECT_TRUE(Implied("metric: mean_top5_overlap, atLeast: 0.9").empty());
  EXPECT_TRUE(Implied("metric: p10_logit_span, atMost: 0.1").empty());
  EXPECT_TRUE(Implied("metric: max_k3, atMost: 0.1").empty());
}

TEST(ImplicationsOf, NeedsTheContractsAssumptions) {
  const auto rows = Implied("metric: mean_tv, atMost: 0.01", "temperature: 1");
  EXPECT_EQ(rows.size(), 1u);
  Assumptions none;
  EXPECT_EQ(AssumptionsMissing(none).size(), 3u);
}

TEST(ImplicationsOf, CarriesAMaximumOverContinuationsWithTheRootOfTheirLength) {
  const auto rows = Implied("metric: max_logit_span, atMost: 0.01", "rewardMax: 1, tokensMax: 100");
  const double tv = std::sqrt(1 - std::pow(1 / std::cosh(0.01 / 4), 200));
  EXPECT_NEAR(ValueOf(rows, "sequence_reward_drift"), 2 * tv, 1e-9);
  // A mean allows no better than adding up.
  const auto mean =
      Implied("metric: mean_logit_span, atMost: 0.01", "rewardMax: 1, tokensMax: 100");
  EXPECT_NEAR(ValueOf(mean, "sequence_reward_drift"), 2 * 100 * std::tanh(0.01 / 4), 1e-9);
}

TEST(ImplicationsOf, MarksWhatGuaranteesNothing) {
  const auto rows = Implied("metric: mean_kl, atMost: 50");
  for (const Implication& row : rows) EXPECT_TRUE(row.vacuous) << row.text;
  for (const Implication& row : Implied("metric: mean_kl, atMost: 0.01")) {
    EXPECT_FALSE(row.vacuous) << row.text;
  }
}

}  // namespace
}  // namespace kcc
