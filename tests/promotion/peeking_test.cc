// How often is a kernel promoted that just violates its clause, by somebody who looks after every
// request and hands in the first look that is satisfied? The tests are the judge's own; whatever
// they call satisfied is measured and judged for real, and the machine takes the step.
//
// The clause allows 5 % of requests beyond its threshold, and 5 % are: every promotion is an error.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/promotion/audit.h"
#include "kcc/promotion/promotion.h"
#include "kcc/promotion/promotion_test_data.h"
#include "kcc/stats/betting.h"
#include "kcc/stats/binomial.h"
#include "kcc/stats/simulation.h"

namespace kcc {
namespace {

constexpr double kRate = 0.05;
constexpr double kAlpha = 0.05;
constexpr int64_t kLooks = 1000;  // one after every request

Contract RateContract() {
  const ReadOutcome outcome = ReadContract(
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: a, version: 1.0.0}\nspec:\n"
      "  numerical:\n    - {id: N-1, metric: mean_tv, atMost: 0.5, exceedance: 5%, level: L2}\n");
  KCC_CHECK(outcome.contract.has_value());
  return *outcome.contract;
}

testing::Evidence EvidenceOf(const std::vector<bool>& bad, size_t size) {
  testing::Evidence evidence;
  for (size_t i = 0; i < size; ++i) {
    testing::JudgedToken token;
    token.Set("tv", bad[i] ? 0.9 : 0.1);
    evidence.Add().tokens.push_back(token);
  }
  return evidence;
}

class Peeker {
 public:
  explicit Peeker(const std::string& shadow = "{}")
      : contract_(RateContract()),
        policy_(testing::PolicyOf("  offline: {}\n  shadow: " + shadow + "\n  full: {}\n")),
        plan_(*MakeBettingPlan(kRate)) {
    auto state = Propose(policy_, {"p",
                                   "lane",
                                   "ada",
                                   testing::Candidate(),
                                   testing::Incumbent(),
                                   AskedOf(contract_),
                                   {},
                                   0});
    KCC_CHECK(state.has_value());
    testing::Walk walk(policy_, *state);
    walk.Start().Good(Stage::kOffline);
    KCC_CHECK(walk.state.phase == Phase::kShadow);
    shadow_ = walk.state;
  }

  // Whether the first look that the judge's test for growing evidence calls satisfied promotes.
  bool PromotesAnytime(const std::vector<bool>& bad) {
    int64_t seen = 0;
    for (size_t n = 1; n <= bad.size(); ++n) {
      seen += bad[n - 1] ? 1 : 0;
      const auto count = static_cast<int64_t>(n);
      if (!Rejects(EvaluateBernoulli(plan_, seen, count).pass, kAlpha)) continue;
      return Take(EvaluationAt(bad, n, Stage::kShadow));
    }
    return false;
  }

  // The same with the exact test for one look, said to be what it is, or passed off as the other.
  bool PromotesFixed(const std::vector<bool>& bad, TestKind said) {
    int64_t seen = 0;
    for (size_t n = 1; n <= bad.size(); ++n) {
      seen += bad[n - 1] ? 1 : 0;
      if (!CertifiesRate({seen, static_cast<int64_t>(n)}, kRate, kAlpha)) continue;
      Evaluation evaluation = EvaluationAt(bad, n, Stage::kOffline);
      evaluation.stage = Stage::kShadow;
      evaluation.test = said;
      evaluation.alpha = kAlpha;
      return Take(evaluation);
    }
    return false;
  }

  // Whether a look that the policy plans promotes, each by the judge's test at its spent alpha.
  bool PromotesPlanned(const std::vector<bool>& bad) {
    int64_t seen = 0;
    size_t n = 0;
    for (const Look& look : policy_.stage(Stage::kShadow).looks) {
      for (; n < static_cast<size_t>(look.requests); ++n) seen += bad[n] ? 1 : 0;
      if (!CertifiesRate({seen, look.requests}, kRate, look.alpha)) continue;
      return Take(EvaluationAt(bad, n, Stage::kShadow, &look));
    }
    return false;
  }

  // The first moment at which the test for any time is satisfied, where looks are planned.
  bool PromotesBetween(const std::vector<bool>& bad) { return PromotesAnytime(bad); }

 private:
  Evaluation EvaluationAt(const std::vector<bool>& bad, size_t n, Stage stage,
                          const Look* look = nullptr) {
    const Summary summary = testing::Measure(contract_, EvidenceOf(bad, n));
    JudgeOptions options{.stage = stage, .about = Population::kTraffic};
    if (look != nullptr) options.look = {look->alpha, look->alpha / kAlpha};
    const Judgement judgement = Judge(contract_, summary, options);
    EXPECT_EQ(judgement.verdict, Verdict::kSatisfied) << "the judge and its test disagree";
    return EvaluationOf(contract_, judgement, nullptr,
                        {testing::Digest(std::to_string(n)), "", static_cast<int64_t>(n),
                         testing::Candidate().contract, look != nullptr ? look->alpha : 0});
  }

  bool Take(const Evaluation& evaluation) {
    PromotionEvent event = testing::Event(PromotionEventKind::kEvaluation);
    event.evaluation = evaluation;
    const auto result = Step(policy_, shadow_, event);
    KCC_CHECK(result.has_value());
    return result->state.phase == Phase::kFull;
  }

  Contract contract_;
  PromotionPolicy policy_;
  BettingPlan plan_;
  PromotionState shadow_;
};

std::string RateText(int64_t promoted, int64_t runs) {
  const Interval interval = RateInterval({promoted, runs}, kAlpha);
  const auto percent = [](double share) { return std::to_string(100 * share).substr(0, 5) + " %"; };
  return percent(static_cast<double>(promoted) / static_cast<double>(runs)) + " (" +
         percent(interval.lo) + " to " + percent(interval.hi) + ")";
}

TEST(Peeking, LookingAfterEveryRequestPromotesNoMoreThanAlpha) {
  const char* asked = std::getenv("KCC_PEEKING_RUNS");
  const int64_t runs = asked != nullptr ? std::atoll(asked) : 1000;
  Peeker peeker;
  int64_t anytime = 0;
  int64_t honest = 0;
  int64_t passed_off = 0;
  for (int64_t run = 0; run < runs; ++run) {
    RandomStream random(static_cast<uint64_t>(run) + 1);
    std::vector<bool> bad(static_cast<size_t>(kLooks));
    for (size_t i = 0; i < bad.size(); ++i) bad[i] = random.Bernoulli(kRate);
    anytime += peeker.PromotesAnytime(bad) ? 1 : 0;
    honest += peeker.PromotesFixed(bad, TestKind::kFixed) ? 1 : 0;
    passed_off += peeker.PromotesFixed(bad, TestKind::kAnytime) ? 1 : 0;
  }
  std::cout << runs << " runs of " << kLooks << " looks at " << 100 * kRate
            << " %; promoted:\n  tests that hold at any time      " << RateText(anytime, runs)
            << "\n  tests for one look, refused      " << RateText(honest, runs)
            << "\n  the same, passed off as the other " << RateText(passed_off, runs) << "\n";
  // Three standard errors above alpha would be 7 % of 1,000 runs; the truth is below alpha.
  EXPECT_LE(RateInterval({anytime, runs}, 0.01).lo, kAlpha);
  EXPECT_GT(anytime, 0) << "a test that never errs here has no power either";
  EXPECT_EQ(honest, 0);
  EXPECT_GT(RateInterval({passed_off, runs}, 0.01).lo, 2 * kAlpha)
      << "without the rule, peeking would promote";
}

// 10,000 runs: they are cheap, since only what the test certifies is measured and judged.
TEST(Peeking, PlannedLooksPromoteNoMoreThanAlphaAndOtherMomentsNever) {
  constexpr int64_t kRuns = 10'000;
  for (const char* spending : {"even", "obrien-fleming"}) {
    Peeker peeker(std::string("{looks: [{requests: 250}, {requests: 500}, {requests: 1000}], ") +
                  "spending: " + spending + "}");
    int64_t planned = 0;
    int64_t between = 0;
    for (int64_t run = 0; run < kRuns; ++run) {
      RandomStream random(static_cast<uint64_t>(run) + 1);
      std::vector<bool> bad(static_cast<size_t>(kLooks));
      for (size_t i = 0; i < bad.size(); ++i) bad[i] = random.Bernoulli(kRate);
      planned += peeker.PromotesPlanned(bad) ? 1 : 0;
      if (run < 500) between += peeker.PromotesBetween(bad) ? 1 : 0;
    }
    std::cout << kRuns << " runs, three planned looks, " << spending << ": promoted "
              << RateText(planned, kRuns) << "\n";
    EXPECT_LE(static_cast<double>(planned), kAlpha * static_cast<double>(kRuns)) << spending;
    EXPECT_GT(planned, kRuns / 100) << "a test that never errs here has no power either";
    EXPECT_EQ(between, 0) << spending;
  }
}

}  // namespace
}  // namespace kcc
