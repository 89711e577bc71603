// What a judgement adds up to: populations, stages, actions, slices and warnings. The rule of each
// verdict is in judge_rules_test.cc.
#include "kcc/judge/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kcc/judge/clause_test_data.h"
#include "kcc/summary/file.h"

namespace kcc {
namespace {

using testing::At;
using testing::Evidence;
using ::testing::HasSubstr;
using testing::JudgedRequest;
using testing::JudgedToken;
using testing::Measure;
using testing::OneClause;
using testing::Read;
using testing::Tokens;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr auto kSatisfied = Verdict::kSatisfied;
constexpr auto kViolated = Verdict::kViolated;
constexpr auto kInconclusive = Verdict::kInconclusive;
constexpr auto kError = Verdict::kError;

// What a summary of format 1 says of a contract, and its warnings.
Judgement OfFormat1(const Contract& contract, const Evidence& evidence) {
  const Summary summary = Measure(contract, evidence);
  const Result<Summary> old = DecodeSummary(EncodeSummary(summary, 1));
  EXPECT_TRUE(old.has_value());
  EXPECT_EQ(Judge(contract, summary).verdict, kSatisfied);
  return Judge(contract, *old);
}

TEST(Judge, ASummaryOfFormat1IsNotSatisfiedByWhatItDoesNotSay) {
  const Evidence evidence = Tokens("kl", {0, 0.25});
  Evidence in_memory = evidence;
  in_memory.change_source = [](Source* s) { s->evidence = EvidenceLevel::kSampledToken; };
  const Judgement plain = OfFormat1(OneClause("mean_kl, atMost: 0.5"), in_memory);
  EXPECT_EQ(plain.verdict, kInconclusive) << "evidence from memory: at which temperature?";

  Evidence traced = evidence;
  traced.change_source = [](Source* s) {
    s->train.identity = "sha256:1";
    s->infer.identity = "sha256:2";
  };
  const Judgement known = OfFormat1(OneClause("mean_kl, atMost: 0.5"), traced);
  EXPECT_EQ(known.verdict, kSatisfied);
  ASSERT_EQ(known.warnings.size(), 1u);
  EXPECT_THAT(known.warnings[0], HasSubstr("format 1"));

  const std::string slices = "  slices: [{name: s, where: kept == true}]\n";
  Evidence kept = traced;
  for (JudgedRequest& request : kept.requests) request.Both("kept", true);
  const Judgement sliced = OfFormat1(OneClause("mean_kl, atMost: 0.5, slices: [s]", slices), kept);
  EXPECT_EQ(sliced.verdict, kInconclusive);
  EXPECT_THAT(sliced.clauses[0].slices[0].about.reason, HasSubstr("whose word 'kept' is"));

  const Judgement bound =
      OfFormat1(OneClause("mean_kl, atMost: 0.5", "  binds: {infer: {engine: vllm}}\n"), traced);
  EXPECT_EQ(bound.verdict, kInconclusive);
}

TEST(Judge, NamesTheFieldThatWouldPlaceRequestsInWindows) {
  const Contract contract = OneClause("mean_kl, atMost: 0.5, exceedance: 10%, window: 2 requests");
  Evidence evidence = Tokens("kl", {0, 0.25});
  for (size_t i = 0; i < 2; ++i) {
    evidence.requests[i].infer.fields["ordinal"] = static_cast<double>(i);
  }
  const SliceVerdict slice = Judge(contract, Measure(contract, evidence)).clauses[0].slices[0];
  EXPECT_EQ(slice.verdict(), kInconclusive);
  EXPECT_THAT(slice.about.reason,
              HasSubstr("2 requests are missing from the windows: no ordinal on the train side"));
}

// --- Actions, stages and what they add up to.

TEST(Judge, TheDefaultPopulationFollowsTheStage) {
  const Contract contract = OneClause("mean_kl, atMost: 0.5");
  const Summary summary = Measure(contract, Tokens("kl", {0}));
  const auto about = [&](const JudgeOptions& options) {
    return Judge(contract, summary, options).about;
  };
  EXPECT_EQ(about({.stage = Stage::kOffline, .about = {}}), Population::kEvaluationSet);
  for (const Stage stage : {Stage::kShadow, Stage::kCanary, Stage::kFull}) {
    EXPECT_EQ(about({.stage = stage, .about = {}}), Population::kTraffic);
    EXPECT_EQ(about({.stage = stage, .about = Population::kEvaluationSet}),
              Population::kEvaluationSet);
  }
  Contract said = contract;
  said.decision.about = Population::kTraffic;
  EXPECT_EQ(Judge(said, summary).about, Population::kTraffic);
}

TEST(Judge, TheOtherPopulationIsTheSecondColumn) {
  Contract contract = OneClause("max_kl, atMost: 0.5");
  const Summary summary = Measure(contract, Tokens("kl", {0}));
  const SliceVerdict slice = Judge(contract, summary).clauses[0].slices[0];
  EXPECT_EQ(slice.about.verdict, kSatisfied);
  EXPECT_EQ(slice.other.verdict, kInconclusive);
  EXPECT_THAT(slice.other.reason, HasSubstr("p999_kl"));
  contract.decision.about = Population::kTraffic;
  const SliceVerdict turned = Judge(contract, summary).clauses[0].slices[0];
  EXPECT_EQ(turned.about.reason, slice.other.reason);
  EXPECT_EQ(turned.other.reason, slice.about.reason);
}

TEST(Judge, ClausesOfOtherStagesAreLeftOut) {
  const Contract contract = Read(
      "  numerical:\n    - {id: A, metric: mean_kl, atMost: 0.5, level: L2, stages: [canary]}\n"
      "    - {id: B, metric: mean_kl, atMost: 0.6, level: L2}\n");
  const Summary summary = Measure(contract, Tokens("kl", {0}));
  EXPECT_EQ(Judge(contract, summary).clauses.size(), 1u);
  EXPECT_EQ(Judge(contract, summary, {.stage = Stage::kCanary, .about = {}}).clauses.size(), 2u);
  Contract none = contract;
  none.clauses.resize(1);
  const Judgement empty = Judge(none, summary);
  EXPECT_EQ(empty.verdict, kInconclusive) << "nothing judged shows nothing";
  EXPECT_FALSE(empty.convergent);
  EXPECT_EQ(empty.action, Action::kGuard);
}

struct ActionCase {
  std::string name;
  std::string spec;
  std::vector<double> kl;
  Verdict verdict;
  std::optional<Action> action;
};

TEST(Judge, OrdersTheActionOfTheMostSevere) {
  const std::string three =
      "  numerical:\n    - {id: A, metric: max_kl, atMost: 1, level: L1}\n"
      "    - {id: B, metric: max_kl, atMost: 2, level: L2}\n"
      "    - {id: C, metric: max_kl, atMost: 3, level: L3}\n";
  const std::string override_l2 =
      "  escalation: {overrides: [{family: numerical, level: L2, action: freeze}]}\n";
  const std::string own =
      "  numerical: [{id: A, metric: max_kl, atMost: 1, level: L2, action: rollback}]\n";
  const ActionCase cases[] = {
      {"nothing violated orders nothing", three, {0.5}, kSatisfied, std::nullopt},
      {"L1 logs", three, {1.5}, kViolated, Action::kLog},
      {"L2 guards", three, {2.5}, kViolated, Action::kGuard},
      {"L3 falls back", three, {3.5}, kViolated, Action::kFallback},
      {"an override beats the level", override_l2 + three, {2.5}, kViolated, Action::kFreeze},
      {"a clause's own action beats an override",
       override_l2 + own,
       {2.5},
       kViolated,
       Action::kRollback},
      {"inconclusive guards", three, {}, kInconclusive, Action::kGuard},
      {"or what onInconclusive says",
       "  escalation: {onInconclusive: rollback}\n" + three,
       {},
       kInconclusive,
       Action::kRollback},
  };
  for (const ActionCase& row : cases) {
    const Contract contract = Read(row.spec);
    const Judgement judgement = Judge(contract, Measure(contract, Tokens("kl", row.kl)));
    EXPECT_EQ(Name(judgement.verdict), Name(row.verdict)) << row.name;
    EXPECT_EQ(judgement.action, row.action) << row.name;
  }
}

TEST(Judge, OnErrorSaysWhatBrokenEvidenceOrders) {
  Contract contract = OneClause("mean_kl, atMost: 0.5", "  escalation: {onError: freeze}\n");
  const Judgement judgement = Judge(contract, Measure(contract, At(0.5)));
  EXPECT_EQ(judgement.action, Action::kFreeze);
  EXPECT_EQ(judgement.health, 0) << "an error is no deviation";
}

TEST(Judge, ViolatedOutweighsErrorOutweighsInconclusiveOutweighsSatisfied) {
  // mean_w overflows in the good direction: an error of that clause alone.
  const std::string satisfied = "    - {id: A, metric: max_tv, atMost: 0.5, level: L1}\n";
  const std::string inconclusive = "    - {id: B, metric: max_k3, atMost: 0.5, level: L1}\n";
  const std::string error = "    - {id: C, metric: mean_w, atLeast: 0.5, level: L1}\n";
  const std::string violated = "    - {id: D, metric: max_kl, atMost: 0.5, level: L1}\n";
  Evidence evidence;
  evidence.Add().tokens = {JudgedToken().Set("tv", 0).Set("w", kInf).Set("kl", 1)};
  const auto verdict = [&](const std::string& clauses) {
    const Contract contract = Read("  numerical:\n" + clauses);
    return Judge(contract, Measure(contract, evidence)).verdict;
  };
  EXPECT_EQ(verdict(satisfied), kSatisfied);
  EXPECT_EQ(verdict(satisfied + inconclusive), kInconclusive);
  EXPECT_EQ(verdict(satisfied + inconclusive + error), kError);
  EXPECT_EQ(verdict(satisfied + inconclusive + error + violated), kViolated);
}

TEST(Judge, ASliceIsKnownByItsPredicateNotItsName) {
  const auto contract = [](const std::string& name, const std::string& where) {
    return OneClause("max_kl, atMost: 0.5, slices: [" + name + "]",
                     "  slices: [{name: " + name + ", where: \"" + where + "\"}]\n");
  };
  Evidence evidence = Tokens("kl", {0, 9});
  evidence.requests[0].Both("kept", true);
  const Summary summary = Measure(contract("some", "kept == true"), evidence);
  EXPECT_EQ(Judge(contract("some", "kept == true"), summary).verdict, kSatisfied);
  EXPECT_EQ(Judge(contract("other", "kept == true"), summary).verdict, kSatisfied) << "renamed";
  const Judgement stale = Judge(contract("some", "prompt_tokens > 5"), summary);
  EXPECT_EQ(stale.verdict, kInconclusive);
  EXPECT_THAT(stale.clauses[0].slices[0].about.reason, HasSubstr("as the contract defines it"));
}

TEST(Judge, TokenSlicesCountTheirTokens) {
  const Contract contract = OneClause("max_kl, atMost: 0.5, slices: [late]",
                                      "  slices: [{name: late, where: \"token.position >= 3\"}]\n");
  Evidence evidence;
  JudgedRequest& request = evidence.Add();
  for (const double kl : {9.0, 9.0, 9.0, 0.25})
    request.tokens.push_back(JudgedToken().Set("kl", kl));
  const Judgement judgement = Judge(contract, Measure(contract, evidence));
  EXPECT_EQ(judgement.verdict, kSatisfied);
  EXPECT_EQ(judgement.clauses[0].slices[0].count.tokens, 1);
}

TEST(Judge, SaysWhatAViolatedClauseWouldHavePassedAt) {
  const Contract mean = OneClause("mean_kl, atMost: 0.5");
  const auto first = [](const Contract& contract, const Evidence& evidence) {
    return Judge(contract, Measure(contract, evidence)).clauses[0].slices[0];
  };
  const SliceVerdict of_mean = first(mean, Tokens("kl", {0.5, 1}));
  EXPECT_EQ(of_mean.smallest_passing, 0.75);
  EXPECT_EQ(of_mean.deviation, 1.5);
  EXPECT_FALSE(of_mean.smallest_budget.has_value());
  const SliceVerdict soft =
      first(OneClause("mean_kl, atMost: 0.5, exceedance: 25%"), Tokens("kl", {0.5, 1, 2, 4}));
  EXPECT_EQ(soft.smallest_budget, 0.75);
  EXPECT_GE(*soft.smallest_passing, 2);
  EXPECT_LE(*soft.smallest_passing, 2 * (1 + 1.0 / 128));
  EXPECT_EQ(soft.deviation, 2) << "capped";
  EXPECT_FALSE(first(mean, Tokens("kl", {kInf})).smallest_passing.has_value()) << "none would do";
}

// What train's outcomes select is held to the clause about both populations.
TEST(Judge, AClauseHoldsOnWhatEitherSidesOutcomesSelect) {
  Evidence evidence = Tokens("kl", {0.25, 1});
  evidence.requests[0].infer.fields["reward"] = 1.0;
  evidence.requests[0].train.fields["reward"] = 0.0;
  evidence.requests[1].infer.fields["reward"] = 0.0;
  evidence.requests[1].train.fields["reward"] = 1.0;
  const auto judge = [&](const std::string& about) {
    const Contract contract =
        OneClause("max_kl, atMost: 0.5, slices: [good]",
                  about + "  slices: [{name: good, where: \"reward >= 1\"}]\n");
    return Judge(contract, Measure(contract, evidence)).clauses[0].slices[0];
  };
  for (const char* about : {"evaluation-set", "traffic"}) {
    const SliceVerdict verdict = judge("  decision: {about: " + std::string(about) + "}\n");
    EXPECT_EQ(verdict.about.verdict, kViolated) << about;
    EXPECT_EQ(verdict.other.verdict, kViolated) << about;
    EXPECT_THAT(verdict.other.reason, HasSubstr("train's own outcomes"));
  }
  // About traffic two requests show nothing of a mean; about the set it is violated.
  const Contract mean = OneClause("mean_kl, atMost: 0.5, slices: [good]",
                                  "  decision: {about: traffic}\n"
                                  "  slices: [{name: good, where: \"reward >= 1\"}]\n");
  const SliceVerdict of_mean = Judge(mean, Measure(mean, evidence)).clauses[0].slices[0];
  EXPECT_EQ(of_mean.about.verdict, kInconclusive);
  EXPECT_EQ(of_mean.other.verdict, kViolated);
}

// Who may cut windows is said in the contract, and the verdict repeats it.
TEST(Judge, WarnsWhereTrustedWordsOfInferPlaceWindows) {
  const std::string trust = "  evidence: {trust: [ordinal]}\n";
  const auto warnings = [](const std::string& clause, const std::string& spec) {
    const Contract contract = OneClause(clause, spec);
    Evidence evidence = Tokens("kl", {0.25, 0.25});
    for (size_t i = 0; i < 2; ++i) {
      evidence.requests[i].infer.fields["ordinal"] = static_cast<double>(i);
      evidence.requests[i].Both("latency_ms", 5.0);
    }
    evidence.change_source = [](Source* source) { source->infer_alone = {"ordinal"}; };
    return Judge(contract, Measure(contract, evidence)).warnings;
  };
  const std::string soft = ", atMost: 0.5, exceedance: 50%, window: ";
  EXPECT_THAT(warnings("mean_kl" + soft + "2 requests", trust),
              ::testing::ElementsAre(HasSubstr("windows of 2 requests rest on 'ordinal'")));
  EXPECT_THAT(warnings("mean_kl" + soft + "2 requests", ""), ::testing::IsEmpty());
  EXPECT_THAT(warnings("mean_kl" + soft + "request", trust), ::testing::IsEmpty());
  EXPECT_THAT(warnings("mean_latency_ms" + soft + "2 requests", trust), ::testing::IsEmpty());
}

}  // namespace
}  // namespace kcc
