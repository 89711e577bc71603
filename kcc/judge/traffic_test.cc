// Verdicts about traffic: which test decides which form of clause, and what can never be shown.
#include "kcc/judge/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/stats/beta.h"

namespace kcc {
namespace {

using testing::Evidence;
using ::testing::HasSubstr;
using testing::JudgedRequest;
using testing::JudgedToken;
using testing::Measure;

constexpr auto kSatisfied = Verdict::kSatisfied;
constexpr auto kViolated = Verdict::kViolated;
constexpr auto kInconclusive = Verdict::kInconclusive;
constexpr auto kError = Verdict::kError;
constexpr auto kAtMost = BoundKind::kAtMost;
constexpr auto kAtLeast = BoundKind::kAtLeast;

Contract About(const std::string& metric, BoundKind bound, double threshold, double exceedance = 0,
               Window window = {}) {
  Clause clause;
  clause.id = "C";
  clause.metric = *ParseMetric(metric);
  clause.bound = bound;
  clause.threshold = threshold;
  clause.slices = {"all"};
  clause.exceedance = exceedance;
  clause.window = window;
  clause.level = ViolationLevel::kL2;
  clause.stages = {Stage::kOffline};
  Contract contract;
  contract.slices = {{"all", {}, {}}};
  contract.clauses = {clause};
  contract.assumptions.tokens_max = 4;
  contract.assumptions.reward_max = 1;
  contract.decision.about = Population::kTraffic;
  return contract;
}

PopulationVerdict First(const Contract& contract, const Evidence& evidence) {
  return Judge(contract, Measure(contract, evidence)).clauses[0].slices[0].about;
}

// `good` and then `bad` requests of four tokens.
Evidence Tokens(std::string_view quantity, double good_value, int good, double bad_value, int bad) {
  Evidence evidence;
  for (int i = 0; i < good + bad; ++i) {
    JudgedRequest& request = evidence.Add();
    request.Both("ordinal", static_cast<double>(i));
    request.Both("started_at_ms", 250.0 * i);
    const double value = i < good ? good_value : bad_value;
    for (int t = 0; t < 4; ++t) request.tokens.push_back(JudgedToken().Set(quantity, value));
  }
  return evidence;
}

Evidence Field(const std::string& field, RequestValue good_value, int good, RequestValue bad_value,
               int bad) {
  Evidence evidence;
  for (int i = 0; i < good + bad; ++i)
    evidence.Add().Both(field, i < good ? good_value : bad_value);
  return evidence;
}

struct Row {
  std::string name;
  Contract contract;
  Evidence evidence;
  Verdict verdict;
  std::string reason;
};

TEST(Traffic, EachFormOfClauseHasItsTest) {
  const Window by_two{Window::Kind::kRequests, 2};
  const Window by_second{Window::Kind::kTime, 1000};
  const Row rows[] = {
      // Percentiles of requests and shares of them: the exact binomial test.
      {"59 clean requests show 5 %", About("p95_latency_ms", kAtMost, 400),
       Field("latency_ms", 100.0, 59, 500.0, 0), kSatisfied, "0 of 59 requests"},
      {"58 do not", About("p95_latency_ms", kAtMost, 400), Field("latency_ms", 100.0, 58, 500.0, 0),
       kInconclusive, "about 1 more requests"},
      {"beyond, but by chance", About("p95_latency_ms", kAtMost, 400),
       Field("latency_ms", 100.0, 18, 500.0, 2), kInconclusive, ""},
      {"beyond, and not by chance", About("p95_latency_ms", kAtMost, 400),
       Field("latency_ms", 100.0, 16, 500.0, 4), kViolated, ""},
      {"percentile at least", About("p05_reward", kAtLeast, 0), Field("reward", 0.5, 59, -0.5, 0),
       kSatisfied, ""},
      {"share of requests", About("failure_rate", kAtMost, 0.05),
       Field("failed", false, 59, true, 0), kSatisfied, ""},
      {"soft clause by request", About("max_kl", kAtMost, 0.5, 0.05), Tokens("kl", 0.25, 59, 1, 0),
       kSatisfied, "0 of 59 requests"},
      {"soft clause by two requests", About("max_kl", kAtMost, 0.5, 0.05, by_two),
       Tokens("kl", 0.25, 118, 1, 0), kSatisfied, "0 of 59 complete windows"},
      {"a window that still fills does not count", About("max_kl", kAtMost, 0.5, 0.05, by_two),
       Tokens("kl", 0.25, 117, 1, 0), kInconclusive, "0 of 58 complete windows"},
      {"windows of time are not independent", About("max_kl", kAtMost, 0.5, 0.05, by_second),
       Tokens("kl", 0.25, 400, 1, 0), kInconclusive, "not independent"},
      // Tokens: bets over requests.
      {"token percentile shown", About("p90_kl", kAtMost, 0.5), Tokens("kl", 0.25, 60, 1, 0),
       kSatisfied, "over 60 requests"},
      {"token percentile, too few requests", About("p90_kl", kAtMost, 0.5),
       Tokens("kl", 0.25, 20, 1, 0), kInconclusive, "more requests in slice all"},
      {"token percentile refuted", About("p90_kl", kAtMost, 0.5), Tokens("kl", 0.25, 10, 1, 20),
       kViolated, ""},
      {"bounded mean shown", About("mean_tv", kAtMost, 0.1), Tokens("tv", 0.01, 80, 1, 0),
       kSatisfied, ""},
      {"bounded mean refuted", About("mean_top1_overlap", kAtLeast, 0.9),
       Tokens("top1_overlap", 1, 10, 0, 20), kViolated, ""},
      {"token rate", About("rate_bit_mismatch", kAtMost, 0.1), Tokens("bit_mismatch", 0, 60, 1, 0),
       kSatisfied, ""},
      {"flips", About("flip_rate", kAtMost, 0.1), Tokens("top1_overlap", 1, 60, 0, 0), kSatisfied,
       ""},
      {"bounded reward", About("mean_reward", kAtLeast, 0), Field("reward", 0.9, 60, 0.0, 0),
       kSatisfied, ""},
      {"length against the longest", About("mean_output_tokens", kAtMost, 3),
       Field("output_tokens", 1.0, 60, 4.0, 0), kSatisfied, ""},
      // Means without an upper end: refuted, never certified; from below the other way round.
      {"unbounded mean refuted", About("mean_kl", kAtMost, 0.5), Tokens("kl", 9, 60, 1, 0),
       kViolated, "against it"},
      {"unbounded mean never shown", About("mean_kl", kAtMost, 0.5), Tokens("kl", 0, 9000, 1, 0),
       kInconclusive, "no sample can certify"},
      {"mean latency refuted", About("mean_latency_ms", kAtMost, 100),
       Field("latency_ms", 900.0, 60, 0.0, 0), kViolated, ""},
      {"mean margin shown from below", About("mean_margin", kAtLeast, 1),
       Tokens("margin", 4, 60, 0, 0), kSatisfied, ""},
      {"mean margin never refuted", About("mean_margin", kAtLeast, 1),
       Tokens("margin", 0.1, 9000, 0, 0), kInconclusive, "no sample can refute"},
      {"a mean without ends", About("mean_log_ratio", kAtMost, 0.5),
       Tokens("log_ratio", 9, 60, 0, 0), kInconclusive, "p99_log_ratio"},
      // Extremes and zeros: one value is a proof.
      {"maximum broken once", About("max_kl", kAtMost, 0.5), Tokens("kl", 0, 99, 1, 1), kViolated,
       "none may"},
      {"maximum never shown", About("max_kl", kAtMost, 0.5), Tokens("kl", 0, 9000, 1, 0),
       kInconclusive, "p999_kl"},
      {"minimum at most is shown by one value", About("min_kl", kAtMost, 0.5),
       Tokens("kl", 1, 9, 0, 1), kSatisfied, "a value within it was seen"},
      {"a rate of 0 is broken once", About("rate_bit_mismatch", kAtMost, 0),
       Tokens("bit_mismatch", 0, 99, 1, 1), kViolated, "none may"},
      {"a rate of 0 is never shown", About("rate_bit_mismatch", kAtMost, 0),
       Tokens("bit_mismatch", 0, 9000, 1, 0), kInconclusive, "never occurs"},
      {"agreement of 1 is broken once", About("mean_top1_overlap", kAtLeast, 1),
       Tokens("top1_overlap", 1, 99, 0, 1), kViolated, ""},
      {"failures of 0 are broken once", About("failure_rate", kAtMost, 0),
       Field("failed", false, 99, true, 1), kViolated, ""},
      {"memory broken once", About("peak_memory_mb", kAtMost, 100),
       Field("peak_memory_mb", 90.0, 9, 101.0, 1), kViolated, ""},
      // Assumptions.
      {"no test of a calibration gap", About("ece_gap", kAtMost, 0.1), Evidence(), kInconclusive,
       ""},
  };
  for (const Row& row : rows) {
    const PopulationVerdict verdict = First(row.contract, row.evidence);
    EXPECT_EQ(Name(verdict.verdict), Name(row.verdict)) << row.name << ": " << verdict.reason;
    EXPECT_THAT(verdict.reason, HasSubstr(row.reason)) << row.name;
  }
}

TEST(Traffic, AGapOfFlagsIsTestedOnThePairs) {
  const Contract contract = About("refusal_rate_gap", kAtMost, 0.2);
  const auto pairs = [](int infer_only, int train_only, int neither) {
    Evidence evidence;
    for (int i = 0; i < infer_only + train_only + neither; ++i) {
      JudgedRequest& request = evidence.Add();
      request.infer.fields["refused"] = i < infer_only;
      request.train.fields["refused"] = i >= infer_only && i < infer_only + train_only;
    }
    return evidence;
  };
  EXPECT_EQ(First(contract, pairs(0, 0, 600)).verdict, kSatisfied);
  EXPECT_EQ(First(contract, pairs(5, 5, 2)).verdict, kInconclusive);
  EXPECT_EQ(First(contract, pairs(300, 0, 100)).verdict, kViolated);
  EXPECT_EQ(First(contract, pairs(0, 300, 100)).verdict, kViolated) << "either sign";
  // The exact test: of 240 requests 48 differ, evenly, against a gap of 0.1.
  EXPECT_EQ(First(About("refusal_rate_gap", kAtMost, 0.1), pairs(24, 24, 192)).verdict, kSatisfied);
  EXPECT_EQ(First(About("refusal_rate_gap", kAtMost, 0.1), pairs(30, 18, 192)).verdict,
            kInconclusive);
}

TEST(Traffic, TheIntervalCoversTheShareAtTheStatedConfidence) {
  // Exactly, not by simulation: the chance of each count, added up over the counts whose interval
  // holds the share. The stated 95 % are for both ends together.
  constexpr int kRequests = 40;
  const Contract contract = About("p90_latency_ms", kAtMost, 400);
  std::vector<Interval> intervals;
  for (int slow = 0; slow <= kRequests; ++slow) {
    const Evidence evidence = Field("latency_ms", 100.0, kRequests - slow, 500.0, slow);
    intervals.push_back(First(contract, evidence).confidence_interval);
  }
  for (int percent = 1; percent < 100; ++percent) {
    const double share = percent / 100.0;
    double covered = 0;
    for (int slow = 0; slow <= kRequests; ++slow) {
      const Interval& interval = intervals[static_cast<size_t>(slow)];
      if (share < interval.lo || share > interval.hi) continue;
      covered += BinomialPoint(slow, kRequests, share);
    }
    EXPECT_GE(covered, 0.95) << share;
  }
}

TEST(Traffic, AssumptionsThatAreNotStatedOrDoNotHold) {
  Contract silent = About("p90_kl", kAtMost, 0.5);
  silent.assumptions.tokens_max.reset();
  const PopulationVerdict unstated = First(silent, Tokens("kl", 0.25, 60, 1, 0));
  EXPECT_EQ(unstated.verdict, kInconclusive);
  EXPECT_THAT(unstated.reason, HasSubstr("state assumptions.tokensMax"));

  Contract broken = About("p90_kl", kAtMost, 0.5);
  broken.assumptions.tokens_max = 3;
  const PopulationVerdict longer = First(broken, Tokens("kl", 0.25, 60, 1, 0));
  EXPECT_EQ(longer.verdict, kError);
  EXPECT_THAT(longer.reason, HasSubstr("60 requests break assumptions.tokensMax"));
  EXPECT_EQ(First(About("mean_reward", kAtLeast, 0), Field("reward", 1.5, 60, 0.0, 0)).verdict,
            kError)
      << "a reward beyond rewardMax";
}

TEST(Traffic, RewardsThatAreZeroOrOneHaveExactTests) {
  Contract plain = About("mean_reward", kAtLeast, 0.5);
  Contract binary = plain;
  binary.assumptions.reward_binary = true;
  // P(at most 13 of 37 at 1/2) is 0.049: the least sample that has four chances in five at 0.7.
  EXPECT_EQ(First(binary, Field("reward", 1.0, 24, 0.0, 13)).verdict, kSatisfied);
  EXPECT_EQ(First(binary, Field("reward", 1.0, 23, 0.0, 14)).verdict, kInconclusive);
  EXPECT_EQ(First(plain, Field("reward", 1.0, 24, 0.0, 13)).verdict, kInconclusive)
      << "a reward of -1 may be rare and unseen";
  EXPECT_EQ(First(binary, Field("reward", 1.0, 13, 0.0, 24)).verdict, kViolated);
  EXPECT_EQ(First(binary, Field("reward", 1.0, 60, 0.5, 1)).verdict, kError)
      << "neither 0 nor rewardMax";
  EXPECT_EQ(First(binary, Field("reward", 1.0, 60, -1.0, 1)).verdict, kError);

  const auto rewards = [](int infer_only, int train_only, int both, double other = 0) {
    Evidence evidence;
    for (int i = 0; i < infer_only + train_only + both; ++i) {
      JudgedRequest& request = evidence.Add();
      request.infer.fields["reward"] = i < infer_only                ? 1.0
                                       : i < infer_only + train_only ? 0.0
                                                                     : other;
      request.train.fields["reward"] = i < infer_only                ? 0.0
                                       : i < infer_only + train_only ? 1.0
                                                                     : other;
    }
    return evidence;
  };
  plain = About("reward_drift", kAtMost, 0.1);
  binary = plain;
  binary.assumptions.reward_binary = true;
  EXPECT_EQ(First(binary, rewards(22, 18, 160)).verdict, kSatisfied);
  EXPECT_EQ(First(plain, rewards(22, 18, 160)).verdict, kInconclusive);
  EXPECT_EQ(First(binary, rewards(30, 18, 192)).verdict, kInconclusive);
  EXPECT_EQ(First(binary, rewards(120, 20, 100)).verdict, kViolated);
  EXPECT_EQ(First(binary, rewards(24, 24, 192, 0.5)).verdict, kError)
      << "the gap is 0, the rewards are not what the contract says";
}

TEST(Traffic, ABoundFarAboveTheLengthsIsNamedAsWhatCosts) {
  Contract contract = About("p90_kl", kAtMost, 0.5);
  contract.assumptions.tokens_max = 4000;
  const PopulationVerdict far = First(contract, Tokens("kl", 0.25, 60, 1, 0));
  EXPECT_EQ(far.verdict, kInconclusive);
  EXPECT_THAT(far.reason, HasSubstr("assumptions.tokensMax is 4000 and these requests have 4 "));
  contract.assumptions.tokens_max = 8;
  const PopulationVerdict near = First(contract, Tokens("kl", 0.25, 20, 1, 0));
  EXPECT_EQ(near.verdict, kInconclusive);
  EXPECT_EQ(near.reason.find("tokensMax"), std::string::npos) << near.reason;
  contract.assumptions.tokens_max = 40;
  EXPECT_EQ(First(contract, Tokens("kl", 0.25, 2000, 1, 0)).reason.find("tokensMax"),
            std::string::npos)
      << "what is decided needs no advice";
}

TEST(Traffic, ARateWithinATenthOfTheLimitIsDecidedGivenTheData) {
  // 9 and 11 of 100 requests are bad throughout, against 10 %.
  const Contract contract = About("p90_kl", kAtMost, 0.5);
  EXPECT_EQ(First(contract, Tokens("kl", 0, 18200, 1, 1800)).verdict, kSatisfied);
  EXPECT_EQ(First(contract, Tokens("kl", 0, 17800, 1, 2200)).verdict, kViolated);
}

TEST(Traffic, ASummaryOfBeforeTheFineGridIsJudgedByItsOwnBets) {
  const Contract contract = About("p90_kl", kAtMost, 0.5);
  std::string plan = Plan::FromContract(contract).CanonicalJson();
  const std::string key = "\"bets\":16,";
  plan.erase(plan.find(key), key.size());
  const auto judged = [&](const Evidence& evidence) {
    const Summary summary = testing::Measure(*Plan::Parse(plan), evidence);
    return Judge(contract, summary).clauses[0].slices[0].about.verdict;
  };
  EXPECT_EQ(judged(Tokens("kl", 0, 60, 1, 0)), kSatisfied);
  EXPECT_EQ(judged(Tokens("kl", 0, 10, 1, 20)), kViolated);
  EXPECT_EQ(judged(Tokens("kl", 0, 18200, 1, 1800)), kInconclusive) << "it holds no small stakes";
}

TEST(Traffic, WhatIsLookedAtAgainNeedsMoreThanWhatIsJudgedOnce) {
  Contract contract = About("p95_latency_ms", kAtMost, 400);
  contract.clauses[0].stages = {Stage::kOffline, Stage::kCanary};
  const auto judged = [&](Stage stage, int good, int bad) {
    const Evidence evidence = Field("latency_ms", 100.0, good, 500.0, bad);
    JudgeOptions options;
    options.stage = stage;
    return Judge(contract, Measure(contract, evidence), options).clauses[0].slices[0].about;
  };
  EXPECT_EQ(judged(Stage::kOffline, 59, 0).verdict, kSatisfied);
  const PopulationVerdict canary = judged(Stage::kCanary, 59, 0);
  EXPECT_EQ(canary.verdict, kInconclusive) << "a look at every request would err too often";
  ASSERT_TRUE(canary.more_requests.has_value());
  EXPECT_LE(*canary.more_requests, 20);
  EXPECT_EQ(judged(Stage::kCanary, 59 + static_cast<int>(*canary.more_requests), 0).verdict,
            kSatisfied);
  EXPECT_EQ(judged(Stage::kOffline, 16, 4).verdict, kViolated);
  EXPECT_EQ(judged(Stage::kCanary, 16, 4).verdict, kInconclusive);
  EXPECT_EQ(judged(Stage::kCanary, 20, 20).verdict, kViolated);
}

TEST(Traffic, AnEstimateFromSampledTokensIsJudgedAsTraffic) {
  for (const Population about : {Population::kTraffic, Population::kEvaluationSet}) {
    const auto judged = [&](const std::string& metric, double value, double threshold) {
      Contract contract = About(metric, kAtMost, threshold);
      contract.decision.about = about;
      Evidence evidence = Tokens(metric.substr(5), value, 80, 0, 0);
      evidence.sampled_only = true;
      return First(contract, evidence);
    };
    EXPECT_EQ(judged("mean_tv", 0.01, 0.1).verdict, kSatisfied);
    EXPECT_EQ(judged("mean_tv", 0.9, 0.1).verdict, kViolated);
    EXPECT_EQ(judged("mean_tv", 0.2, 0.199).verdict, kInconclusive) << "beyond is not yet violated";
    EXPECT_EQ(judged("mean_kl", 0.01, 0.1).verdict, kInconclusive) << "its terms have no upper end";
    EXPECT_EQ(judged("mean_kl", 9, 0.1).verdict, kViolated);
    EXPECT_EQ(judged("mean_hellinger", 0.01, 0.1).verdict, kInconclusive)
        << "the quantity has an upper end, its terms have none";
    EXPECT_EQ(judged("mean_kl", 0, 0).verdict, kInconclusive);
    EXPECT_EQ(judged("mean_kl", 1, 0).verdict, kInconclusive) << "a term is no proof";
  }
  Contract contract = About("p90_tv", kAtMost, 0.5);
  Evidence evidence = Tokens("tv", 0.01, 80, 0, 0);
  evidence.sampled_only = true;
  EXPECT_EQ(First(contract, evidence).verdict, kInconclusive) << "an estimate gives a mean only";
}

TEST(Traffic, MissingEvidenceForbidsSatisfiedAndCountsAsGoodForViolated) {
  const auto with_missing = [](Evidence evidence, int missing) {
    for (int i = 0; i < missing; ++i) evidence.Add().tokens.resize(4);
    return evidence;
  };
  const Contract percentile = About("p90_kl", kAtMost, 0.5);
  EXPECT_EQ(First(percentile, with_missing(Tokens("kl", 0, 500, 1, 0), 1)).verdict, kInconclusive);
  EXPECT_EQ(First(percentile, with_missing(Tokens("kl", 0, 0, 1, 50), 5)).verdict, kViolated);
  EXPECT_EQ(First(percentile, with_missing(Tokens("kl", 0, 0, 1, 50), 450)).verdict, kInconclusive)
      << "all of them may be good";
  Evidence latency = Field("latency_ms", 100.0, 0, 500.0, 10);
  const Contract p50 = About("p50_latency_ms", kAtMost, 400);
  EXPECT_EQ(First(p50, latency).verdict, kViolated);
  for (int i = 0; i < 10; ++i) latency.Add();
  EXPECT_EQ(First(p50, latency).verdict, kInconclusive);
  Evidence shard = Tokens("kl", 0, 0, 1, 50);
  shard.unmeasured = 1;
  EXPECT_EQ(First(percentile, shard).verdict, kInconclusive);
}

TEST(Traffic, ViolatedIsCorrectedForManyClausesAndSatisfiedIsNot) {
  // 4 of 20 against 5 %: p = 0.016. Alone that is violated, beside nine others it is not.
  Contract contract = About("p95_latency_ms", kAtMost, 400);
  const Evidence evidence = Field("latency_ms", 100.0, 16, 500.0, 4);
  EXPECT_EQ(First(contract, evidence).verdict, kViolated);
  for (int i = 0; i < 9; ++i) {
    contract.clauses.push_back(contract.clauses[0]);
    contract.clauses.back().threshold = 600 + i;
  }
  EXPECT_EQ(First(contract, evidence).verdict, kInconclusive);
  Contract many = About("p95_latency_ms", kAtMost, 400);
  many.clauses.resize(20, many.clauses[0]);
  EXPECT_TRUE(Judge(many, Measure(many, Field("latency_ms", 100.0, 59, 0.0, 0))).convergent);
  // An extreme is not tested, so it takes no share of the error.
  Contract beside = About("p95_latency_ms", kAtMost, 400);
  for (int i = 0; i < 9; ++i) {
    beside.clauses.push_back(About("max_latency_ms", kAtMost, 600 + i).clauses[0]);
  }
  EXPECT_EQ(First(beside, evidence).verdict, kViolated);
}

TEST(Traffic, AClauseMayAskForItsOwnConfidence) {
  Contract contract = About("p95_latency_ms", kAtMost, 400);
  const Evidence evidence = Field("latency_ms", 100.0, 59, 500.0, 0);
  EXPECT_EQ(First(contract, evidence).verdict, kSatisfied);
  contract.clauses[0].confidence = 0.99;
  EXPECT_EQ(First(contract, evidence).verdict, kInconclusive) << "90 would be needed";
  contract.decision.confidence = 0.99;
  contract.clauses[0].confidence = 0.95;
  EXPECT_EQ(First(contract, evidence).verdict, kSatisfied);
}

TEST(Traffic, AContractTheSummaryWasNotMeasuredForHasNoTest) {
  const Contract measured = About("p90_kl", kAtMost, 0.5);
  const Contract other = About("p90_kl", kAtMost, 0.625);
  const Judgement judgement = Judge(other, Measure(measured, Tokens("kl", 0.25, 60, 1, 0)));
  EXPECT_EQ(judgement.verdict, kInconclusive);
  EXPECT_THAT(judgement.clauses[0].slices[0].about.reason, HasSubstr("measure again"));
  EXPECT_EQ(judgement.clauses[0].slices[0].other.verdict, kSatisfied) << "the histogram decides";
}

TEST(Traffic, IntervalsAreTestedAtTheirWorseEnd) {
  const Contract contract = About("p90_kl", kAtMost, 0.5);
  const auto intervals = [](double lo, double hi) {
    Evidence evidence;
    for (int i = 0; i < 60; ++i) evidence.Add().tokens.push_back(JudgedToken().Set("kl", lo, hi));
    return evidence;
  };
  // One token of at most four each: less weight, so more room.
  Contract short_requests = contract;
  short_requests.assumptions.tokens_max = 1;
  EXPECT_EQ(First(short_requests, intervals(0, 0.5)).verdict, kSatisfied);
  EXPECT_EQ(First(short_requests, intervals(0, 1)).verdict, kInconclusive);
  EXPECT_EQ(First(short_requests, intervals(0.75, 1)).verdict, kViolated);
}

}  // namespace
}  // namespace kcc
