// What clauses imply, and that two distributions at a clause's threshold do not exceed it.
#include "kcc/bounds/implied.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kcc/bounds/consequence.h"
#include "kcc/bounds/divergence.h"
#include "kcc/bounds/rounding.h"
#include "kcc/bounds/sequence.h"
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
  return ImplicationsOf(contract, contract.clauses[0]);
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
      // A percentile leaves its share of tokens open; a soft clause speaks of windows one by one.
      {"metric: p99_logit_span, atMost: 0.1", 0.99 * t + 0.01},
      {"metric: mean_logit_span, atMost: 0.1, exceedance: 5%", t},
      {"metric: p99_logit_span, atMost: 0.1, exceedance: 5%", 0.99 * t + 0.01},
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

const Implication* Find(const std::vector<Implication>& rows, std::string_view quantity) {
  for (const Implication& row : rows) {
    if (row.quantity == quantity) return &row;
  }
  return nullptr;
}

TEST(ImplicationsOf, SpeaksOfAShareOfWindowsWhereAClauseIsSoft) {
  struct Case {
    const char* clause;
    const char* text;
  };
  const Case cases[] = {
      {"metric: mean_kl, atMost: 0.002, exceedance: 1%",
       "mean total variation of a token, in all but 1% of the requests"},
      {"metric: max_logit_span, atMost: 0.1, exceedance: 7%, window: 100 requests",
       "total variation of every token, in all but 7% of the windows of 100 requests"},
      {"metric: max_logit_span, atMost: 0.1, exceedance: 0.1%, window: 1m",
       "total variation of every token, in all but 0.1% of the windows of 1m"},
  };
  for (const Case& c : cases) {
    const auto rows = Implied(c.clause);
    EXPECT_EQ(rows.size(), 3u) << c.clause;
    EXPECT_EQ(rows[0].text, c.text);
    for (const Implication& row : rows) EXPECT_GT(row.exceedance, 0) << row.text;
  }
}

// 99 requests of one token without drift and one of 2,000 with a total variation of 1: the clause
// holds, and the mean over tokens is 2000/2099.
TEST(ImplicationsOf, SaysNothingOfAllTokensWhereAClauseIsSoft) {
  for (const Implication& row : Implied("metric: mean_kl, atMost: 0.002, exceedance: 1%")) {
    EXPECT_EQ(row.exceedance, 0.01) << row.text;
  }
}

TEST(ImplicationsOf, AddsTheRequestsThatASoftClauseLeavesOpenToContinuations) {
  const std::string given = "rewardMax: 1, advantageMax: 1, scoreNormMax: 1, tokensMax: 4";
  const auto soft = Implied("metric: mean_tv, atMost: 0.01, exceedance: 5%", given);
  EXPECT_NEAR(ValueOf(soft, "sequence_reward_drift"), 2 * (4 * 0.01 + 0.05), 1e-12);
  EXPECT_NEAR(ValueOf(soft, "trajectory_bias"), 2 * 4 * (4 * 0.01 + 0.05), 1e-12);
  EXPECT_EQ(Find(soft, "sequence_reward_drift")->exceedance, 0);
  // Windows of several requests need not hold equally many of them.
  EXPECT_EQ(
      Find(Implied("metric: mean_tv, atMost: 0.01, exceedance: 5%, window: 9 requests", given),
           "sequence_reward_drift"),
      nullptr);
}

// A sampled value is no divergence; its mean over one window, drawn as it was, is none either.
TEST(ImplicationsOf, SaysNothingOfTokensWhereASoftClauseIsOnSamples) {
  EXPECT_TRUE(Implied("metric: mean_abs_log_ratio, atMost: 0.1, exceedance: 5%").empty());
  const std::string given = "rewardMax: 1, tokensMax: 4";
  const auto rows = Implied("metric: mean_abs_log_ratio, atMost: 0.1, exceedance: 5%", given);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_NEAR(ValueOf(rows, "sequence_reward_drift"), 2 * (0.4 + 0.05), 1e-12);
  for (const char* metric : {"mean_k1", "mean_k3", "mean_w_log_w"}) {
    const std::string clause = "metric: " + std::string(metric) + ", atMost: 0.1, exceedance: 5%";
    EXPECT_TRUE(Implied(clause, given).empty()) << metric;
  }
}

// Two tokens of two kinds. infer begins with 0 by 0.54, train by 0.12; after 1 infer draws 0 by
// 0.55, train by 0.02. KL(train || infer) over the prefixes that infer draws is less than the KL of
// continuations, so that adding it up would promise 1.19 where 1.31 is measured.
TEST(ImplicationsOf, HoldsWhereTheKlOverInfersPrefixesDoesNotAddUp) {
  const double p[2] = {0.12, 0.02};
  const double q[2] = {0.54, 0.55};
  const auto kl = [&](int i) {
    return p[i] * std::log(p[i] / q[i]) + (1 - p[i]) * std::log((1 - p[i]) / (1 - q[i]));
  };
  const double mean_kl = (kl(0) + (1 - q[0]) * kl(1)) / 2;
  const double drift = std::fabs(p[0] - q[0]) + std::fabs((1 - p[0]) * p[1] - (1 - q[0]) * q[1]) +
                       std::fabs((1 - p[0]) * (1 - p[1]) - (1 - q[0]) * (1 - q[1]));
  EXPECT_NEAR(drift, 1.31, 0.01);
  EXPECT_NEAR(2 * TvOfKl(2 * mean_kl), 1.19, 0.01);
  const auto rows = Implied("metric: mean_kl, atMost: " + std::to_string(mean_kl + 1e-6),
                            "rewardMax: 1, tokensMax: 2");
  EXPECT_GE(ValueOf(rows, "sequence_reward_drift"), drift);
}

TEST(ImplicationsOf, AddsUpOnlyTheKlThatInfersPrefixesGive) {
  const std::string given = "rewardMax: 1, tokensMax: 2";
  const auto drift = [&](const char* metric) {
    return ValueOf(Implied("metric: " + std::string(metric) + ", atMost: 0.05", given),
                   "sequence_reward_drift");
  };
  const double chain = 2 * std::sqrt(0.05);        // sqrt(2 * 0.05 / 2), twice
  const double hybrid = 2 * 2 * std::sqrt(0.025);  // two tokens of sqrt(0.05 / 2)
  for (const char* metric : {"mean_reverse_kl", "mean_k1", "mean_k3", "max_kl"}) {
    EXPECT_NEAR(drift(metric), chain, 1e-12) << metric;
  }
  for (const char* metric : {"mean_kl", "mean_w_log_w"}) {
    EXPECT_NEAR(drift(metric), hybrid, 1e-12) << metric;
  }
}

TEST(ImplicationsOf, SaysWhoMustHaveChosenTheTokens) {
  const std::string given = "rewardMax: 1, tokensMax: 2";
  struct Case {
    const char* clause;
    const char* tokens;
    const char* continuations;
  };
  const char* of_tokens = "mean total variation of a token";
  const char* drift = "mean reward drift of continuations of up to 2 tokens, |reward| ≤ 1";
  const Case cases[] = {
      {"mean_tv", "", ", where infer or train chose the tokens"},
      {"mean_kl", "", ", where infer or train chose the tokens"},
      {"mean_reverse_kl", "", ", where infer chose the tokens"},
      {"mean_k1", ", where infer chose the tokens", ", where infer chose the tokens"},
      {"mean_w_log_w", ", where infer chose the tokens and can choose whatever train can",
       ", where infer chose the tokens and can choose whatever train can"},
  };
  for (const Case& c : cases) {
    const auto rows = Implied("metric: " + std::string(c.clause) + ", atMost: 0.05", given);
    EXPECT_EQ(Find(rows, "tv")->text, std::string(of_tokens) + c.tokens);
    EXPECT_EQ(Find(rows, "sequence_reward_drift")->text, std::string(drift) + c.continuations);
  }
}

TEST(ImplicationsOf, StatesOnlyWhatASliceLeavesTrue) {
  struct Case {
    const char* where;
    const char* metric;
    bool tokens;
    bool continuations;
  };
  const Case cases[] = {
      {"prompt_tokens >= 8192 and 'code' in tags", "mean_tv", true, true},
      {"prompt_tokens >= 8192 and 'code' in tags", "mean_abs_log_ratio", true, true},
      {"token.position < 10", "mean_tv", true, false},  // some tokens of a continuation only
      {"token.position < 10", "mean_abs_log_ratio", true, false},
      // What was drawn decides: no sample of infer's law.
      {"token.token == 7", "mean_tv", true, false},
      {"token.token == 7", "mean_abs_log_ratio", false, false},
      {"output_tokens > 100", "max_tv", true, false},
      {"output_tokens > 100", "mean_k1", false, false},
      {"reward > 0 and prompt_tokens > 3", "mean_w_log_w", false, false},
  };
  for (const Case& c : cases) {
    Contract contract = ContractOf("metric: " + std::string(c.metric) + ", atMost: 0.1",
                                   "rewardMax: 1, tokensMax: 4");
    contract.slices.push_back({"some", *Predicate::Parse(c.where), {}});
    contract.clauses[0].slices = {"some"};
    const auto rows = ImplicationsOf(contract, contract.clauses[0]);
    EXPECT_EQ(Find(rows, "tv") != nullptr, c.tokens) << c.where << " " << c.metric;
    EXPECT_EQ(Find(rows, "sequence_reward_drift") != nullptr, c.continuations)
        << c.where << " " << c.metric;
    if (c.tokens) {
      EXPECT_TRUE(Find(rows, "tv")->text.ends_with(", on slice some"));
    }
  }
}

TEST(ImplicationsOf, AsksWhatAnAdvantageDependsOn) {
  const std::string given = "advantageMax: 2, scoreNormMax: 3, tokensMax: 9";
  const std::string clause = "metric: max_logit_span, atMost: 0.01";
  const double whole = 2 * 2 * 3 * 9 * SequenceTvOfSpan(0.01, 9);
  EXPECT_NEAR(ValueOf(Implied(clause, given), "trajectory_bias"), whole, 1e-12);
  const auto tokens = Implied(clause, given + ", advantages: token");
  EXPECT_EQ(ValueOf(tokens, "trajectory_bias"), RoundUp(TrajectoryBiasOfSpan(0.01, 9, 2, 3)));
  EXPECT_LT(ValueOf(tokens, "trajectory_bias"), 0.8 * whole);
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
