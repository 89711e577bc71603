// Verdicts on metrics of the user's own. Most cases ask one question: could such a metric make
// *satisfied* appear where it should not?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/summary/file.h"

namespace kcc {
namespace {

using ::testing::Contains;
using testing::Evidence;
using ::testing::HasSubstr;
using testing::JudgedRequest;
using testing::JudgedToken;
using testing::Measure;

constexpr auto kSatisfied = Verdict::kSatisfied;
constexpr auto kViolated = Verdict::kViolated;
constexpr auto kInconclusive = Verdict::kInconclusive;
constexpr auto kError = Verdict::kError;

Contract Read(const std::string& metric, const std::string& clause, const std::string& spec = "") {
  const std::string yaml =
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: test, version: 1.0.0}\nspec:\n" +
      spec + "  metrics:\n    - {name: cost, " + metric +
      "}\n  numerical:\n    - {id: C, level: L2, metric: " + clause + "}\n";
  const ReadOutcome outcome = ReadContract(yaml);
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    EXPECT_NE(diagnostic.kind, DiagnosticKind::kError)
        << FormatDiagnostic(diagnostic, "test.yaml", yaml);
  }
  return outcome.contract.value_or(Contract());
}

Evidence Costs(const std::vector<double>& values) {
  Evidence evidence;
  for (const double value : values) evidence.Add().Both("cost", value);
  return evidence;
}

SliceVerdict JudgeOne(const Contract& contract, const Summary& summary) {
  const Judgement judgement = Judge(contract, summary, {});
  EXPECT_EQ(judgement.clauses.size(), 1u);
  return judgement.clauses[0].slices[0];
}

SliceVerdict JudgeOne(const Contract& contract, const Evidence& evidence) {
  return JudgeOne(contract, Measure(contract, evidence));
}

const std::string kCost = "from: cost, direction: lower";
const std::string kTraffic = "  decision: {about: traffic}\n";

struct Rule {
  std::string clause;
  std::vector<double> values;
  Verdict verdict;
};

class OwnRule : public ::testing::TestWithParam<Rule> {};

TEST_P(OwnRule, HoldsAsForBuiltInMetrics) {
  const Rule& rule = GetParam();
  const SliceVerdict verdict = JudgeOne(Read(kCost, rule.clause), Costs(rule.values));
  EXPECT_EQ(verdict.verdict(), rule.verdict) << rule.clause << ": " << verdict.about.reason;
}

INSTANTIATE_TEST_SUITE_P(
    Aggregates, OwnRule,
    ::testing::Values(Rule{"mean_cost, atMost: 0.5", {0.25, 0.75}, kSatisfied},
                      Rule{"mean_cost, atMost: 0.4", {0.25, 0.75}, kViolated},
                      Rule{"mean_cost, atMost: -1", {-2, -1}, kSatisfied},
                      Rule{"max_cost, atMost: 3", {1, 2, 3}, kSatisfied},
                      Rule{"max_cost, atMost: 2.5", {1, 2, 3}, kViolated},
                      Rule{"min_cost, atMost: 1", {1, 2, 3}, kSatisfied},
                      Rule{"p50_cost, atMost: 2", {1, 2, 3}, kSatisfied},
                      Rule{"p50_cost, atMost: 1.5", {1, 2, 3}, kViolated},
                      Rule{"rate_cost, atMost: 0.5", {0, 0, 1}, kSatisfied},
                      Rule{"rate_cost, atMost: 0.5", {0, 2, 1}, kViolated},
                      Rule{"mean_cost, atMost: 1, exceedance: 50%", {0, 5}, kSatisfied},
                      Rule{"mean_cost, atMost: 1, exceedance: 40%", {0, 5}, kViolated},
                      Rule{"p95_train_cost, atMost: 3", {1, 2, 3}, kSatisfied},
                      Rule{"p95_train_cost, atMost: 2", {1, 2, 3}, kViolated}));

TEST(OwnMetric, IsJudgedOnItsSideAlone) {
  Evidence evidence;
  JudgedRequest& request = evidence.Add();
  request.infer.fields["cost"] = 9.0;
  request.train.fields["cost"] = 1.0;
  EXPECT_EQ(JudgeOne(Read(kCost, "max_cost, atMost: 2"), evidence).verdict(), kViolated);
  EXPECT_EQ(JudgeOne(Read(kCost, "max_train_cost, atMost: 2"), evidence).verdict(), kSatisfied);
}

// --- Missing is never good.

TEST(OwnMetric, IsInconclusiveWhereAFieldIsMissing) {
  Evidence evidence = Costs({1, 1, 1});
  evidence.requests[1].infer.fields.erase("cost");
  const SliceVerdict verdict = JudgeOne(Read(kCost, "max_cost, atMost: 2"), evidence);
  EXPECT_EQ(verdict.verdict(), kInconclusive) << verdict.about.reason;
  evidence.requests[1].infer.fields["cost"] = std::string("1");
  EXPECT_EQ(JudgeOne(Read(kCost, "max_cost, atMost: 2"), evidence).verdict(), kInconclusive);
  evidence.requests[1].infer.fields["cost"] = std::nan("");
  EXPECT_EQ(JudgeOne(Read(kCost, "max_cost, atMost: 2"), evidence).verdict(), kInconclusive);
  // One that is there and too large stays a violation.
  evidence.requests[0].infer.fields["cost"] = 3.0;
  EXPECT_EQ(JudgeOne(Read(kCost, "max_cost, atMost: 2"), evidence).verdict(), kViolated);
}

TEST(OwnMetric, IsInconclusiveWhereItIsDividedByZero) {
  Evidence evidence = Costs({1, 0, 1});
  const std::string inverse = "from: 1 / cost, direction: lower";
  EXPECT_EQ(JudgeOne(Read(inverse, "max_cost, atMost: 2"), evidence).verdict(), kInconclusive);
  const std::string back = "from: 1 / (1 / cost), direction: lower";
  EXPECT_EQ(JudgeOne(Read(back, "max_cost, atMost: 2"), evidence).verdict(), kInconclusive);
}

TEST(OwnMetric, IsInconclusiveWhereSoftWindowsLackValues) {
  Evidence evidence = Costs({1, 1, 1});
  evidence.requests[1].infer.fields.erase("cost");
  EXPECT_EQ(JudgeOne(Read(kCost, "mean_cost, atMost: 2, exceedance: 10%"), evidence).verdict(),
            kInconclusive);
}

TEST(OwnMetric, ExceedsWhereATimeTimedOut) {
  Evidence evidence = Costs({1, 1, 1});
  evidence.requests[1].infer.fields.erase("cost");
  evidence.requests[1].infer.fields["timed_out"] = true;
  const std::string time = "from: cost, direction: lower, unit: ms";
  EXPECT_EQ(JudgeOne(Read(time, "max_cost, atMost: 2"), evidence).verdict(), kViolated);
  // With a declared max a time-out is no value of the metric.
  EXPECT_EQ(JudgeOne(Read(time + ", max: 9", "max_cost, atMost: 2"), evidence).verdict(),
            kInconclusive);
}

// --- A declared range is a promise about the evidence.

struct Breach {
  std::string clause;
  std::string spec;
};

class OutsideTheRange : public ::testing::TestWithParam<Breach> {};

TEST_P(OutsideTheRange, IsAnError) {
  const std::string ranged = kCost + ", min: 0, max: 4";
  const Contract contract = Read(ranged, GetParam().clause, GetParam().spec);
  std::vector<double> values(200, 1.0);
  EXPECT_EQ(JudgeOne(contract, Costs(values)).verdict(), kSatisfied);
  values[7] = -1000;
  const SliceVerdict below = JudgeOne(contract, Costs(values));
  EXPECT_EQ(below.verdict(), kError) << below.about.reason;
  EXPECT_THAT(below.about.reason, HasSubstr("a value of cost is -1000"));
  EXPECT_EQ(below.other.verdict, kError);
  values[7] = 4.5;
  const SliceVerdict above = JudgeOne(contract, Costs(values));
  EXPECT_EQ(above.verdict(), kError) << above.about.reason;
  EXPECT_THAT(above.about.reason, HasSubstr("at most 4"));
}

INSTANTIATE_TEST_SUITE_P(
    Forms, OutsideTheRange,
    ::testing::Values(Breach{"mean_cost, atMost: 2", ""}, Breach{"p90_cost, atMost: 2", ""},
                      Breach{"mean_cost, atMost: 2, exceedance: 10%", ""},
                      Breach{"mean_cost, atMost: 2", kTraffic},
                      Breach{"p90_cost, atMost: 2", kTraffic},
                      Breach{"mean_cost, atMost: 2, exceedance: 10%", kTraffic}));

// --- About traffic.

TEST(OwnMetric, MeanIsCertifiedFromSamplesOnlyWithARange) {
  const std::vector<double> values(400, 0.1);
  const auto about_traffic = [&](const std::string& range) {
    return JudgeOne(Read(kCost + range, "mean_cost, atMost: 0.5", kTraffic), Costs(values));
  };
  EXPECT_EQ(about_traffic(", min: 0, max: 1").verdict(), kSatisfied);
  for (const char* range : {"", ", min: 0", ", max: 1"}) {
    const SliceVerdict verdict = about_traffic(range);
    EXPECT_EQ(verdict.verdict(), kInconclusive) << range;
    EXPECT_EQ(verdict.other.verdict, kSatisfied) << range;  // of the evaluation set it is a fact
  }
}

TEST(OwnMetric, MeanIsRefutedFromSamples) {
  const std::vector<double> values(400, 0.9);
  for (const char* range : {", min: 0, max: 1", ", min: 0"}) {
    EXPECT_EQ(
        JudgeOne(Read(kCost + range, "mean_cost, atMost: 0.5", kTraffic), Costs(values)).verdict(),
        kViolated)
        << range;
  }
}

TEST(OwnMetric, PercentilesNeedNoRange) {
  EXPECT_EQ(
      JudgeOne(Read(kCost, "p95_cost, atMost: 2", kTraffic), Costs(std::vector<double>(200, 1.0)))
          .verdict(),
      kSatisfied);
  EXPECT_EQ(
      JudgeOne(Read(kCost, "p95_cost, atMost: 2", kTraffic), Costs(std::vector<double>(20, 1.0)))
          .verdict(),
      kInconclusive);
}

// --- A summary measured with another definition.

TEST(OwnMetric, OfAnotherDefinitionIsNeverSatisfied) {
  const Contract measured = Read(kCost, "max_cost, atMost: 2");
  const Summary summary = Measure(measured, Costs({1, 1, 1}));
  EXPECT_EQ(JudgeOne(measured, summary).verdict(), kSatisfied);
  for (const char* other :
       {"from: cost * 2, direction: lower", "from: cost, direction: signed",
        "from: cost, direction: lower, min: 0", "from: cost, direction: lower, version: v2",
        "from: cost, direction: lower, unit: ms"}) {
    for (const char* clause : {"max_cost, atMost: 2", "max_cost, atMost: 2, exceedance: 10%"}) {
      const SliceVerdict verdict = JudgeOne(Read(other, clause), summary);
      EXPECT_EQ(verdict.verdict(), kInconclusive) << other;
      EXPECT_THAT(verdict.about.reason, HasSubstr("another definition of 'cost'")) << other;
    }
  }
  const SliceVerdict train = JudgeOne(Read(kCost, "max_train_cost, atMost: 2"), summary);
  EXPECT_EQ(train.verdict(), kInconclusive);
  EXPECT_THAT(train.about.reason, HasSubstr("without the metric"));
}

TEST(OwnMetric, OfASummaryWithoutAnyIsNeverSatisfied) {
  const Summary summary = Measure(Plan::Default(), Costs({1, 1, 1}));
  for (const char* clause : {"max_cost, atMost: 2", "mean_cost, atMost: 2, exceedance: 10%"}) {
    const SliceVerdict verdict = JudgeOne(Read(kCost, clause), summary);
    EXPECT_EQ(verdict.verdict(), kInconclusive);
    EXPECT_THAT(verdict.about.reason, HasSubstr("without the metric 'cost'"));
  }
}

TEST(OwnMetric, IsJudgedAtOtherThresholdsAsFarAsTheHistogramAllows) {
  const Summary summary = Measure(Read(kCost, "p50_cost, atMost: 2"), Costs({1, 1, 9}));
  EXPECT_EQ(JudgeOne(Read(kCost, "p50_cost, atMost: 4"), summary).verdict(), kSatisfied);
  EXPECT_EQ(JudgeOne(Read(kCost, "p50_cost, atMost: 0.5"), summary).verdict(), kViolated);
}

// --- Tokens.

Evidence TokenValues(const std::vector<std::vector<double>>& requests) {
  Evidence evidence;
  for (const std::vector<double>& values : requests) {
    JudgedRequest& request = evidence.Add();
    for (const double value : values) {
      JudgedToken& token = request.tokens.emplace_back();
      if (!std::isnan(value)) token.own = {value};
    }
  }
  return evidence;
}

const std::string kToken = "of: token, from: -token.logprob, unit: nat, direction: lower, min: 0";

TEST(OwnTokenMetric, IsJudgedLikeBuiltInOnes) {
  const Evidence evidence = TokenValues({{1, 2}, {3}});
  EXPECT_EQ(JudgeOne(Read(kToken, "mean_cost, atMost: 2"), evidence).verdict(), kSatisfied);
  EXPECT_EQ(JudgeOne(Read(kToken, "mean_cost, atMost: 1.9"), evidence).verdict(), kViolated);
  EXPECT_EQ(JudgeOne(Read(kToken, "p50_cost, atMost: 2"), evidence).verdict(), kSatisfied);
  EXPECT_EQ(JudgeOne(Read(kToken, "max_cost, atMost: 2, exceedance: 50%"), evidence).verdict(),
            kSatisfied);
  EXPECT_EQ(JudgeOne(Read(kToken, "mean_cost, atMost: 1.4, exceedance: 50%"), evidence).verdict(),
            kViolated);
}

TEST(OwnTokenMetric, IsJudgedOnSlicesOfTokens) {
  const Evidence evidence = TokenValues({{9, 9, 9, 1}, {9, 9, 9, 2, 3}});
  const std::string late = "  slices:\n    - {name: late, where: token.position >= 3}\n";
  EXPECT_EQ(JudgeOne(Read(kToken, "max_cost, atMost: 3, slices: [late]", late), evidence).verdict(),
            kSatisfied);
  EXPECT_EQ(JudgeOne(Read(kToken, "max_cost, atMost: 2, slices: [late]", late), evidence).verdict(),
            kViolated);
  EXPECT_EQ(JudgeOne(Read(kToken, "max_cost, atMost: 3", late), evidence).verdict(), kViolated);
}

TEST(OwnTokenMetric, IsInconclusiveWhereAValueIsMissing) {
  const double missing = std::nan("");
  const Evidence evidence = TokenValues({{1, missing}, {1}});
  for (const char* clause :
       {"mean_cost, atMost: 2", "p50_cost, atMost: 2", "mean_cost, atMost: 2, exceedance: 10%"}) {
    EXPECT_EQ(JudgeOne(Read(kToken, clause), evidence).verdict(), kInconclusive) << clause;
  }
  EXPECT_EQ(JudgeOne(Read(kToken, "mean_cost, atMost: 2"), TokenValues({{missing}})).verdict(),
            kInconclusive);
}

TEST(OwnTokenMetric, OutsideItsRangeIsAnError) {
  EXPECT_EQ(JudgeOne(Read(kToken, "mean_cost, atMost: 2"), TokenValues({{1, -5}, {1}})).verdict(),
            kError);
}

TEST(OwnTokenMetric, AboutTrafficNeedsRangeAndTokensMax) {
  const Evidence evidence = TokenValues(std::vector<std::vector<double>>(400, {0.1, 0.1}));
  const std::string bounded = kToken + ", max: 1";
  const std::string most = kTraffic + "  assumptions: {tokensMax: 4}\n";
  EXPECT_EQ(JudgeOne(Read(bounded, "mean_cost, atMost: 0.5", most), evidence).verdict(),
            kSatisfied);
  EXPECT_EQ(JudgeOne(Read(bounded, "mean_cost, atMost: 0.5", kTraffic), evidence).verdict(),
            kInconclusive);
  EXPECT_EQ(JudgeOne(Read(kToken, "mean_cost, atMost: 0.5", most), evidence).verdict(),
            kInconclusive);
}

TEST(OwnTokenMetric, WarnsWhereInferAloneLabels) {
  Evidence evidence = TokenValues({{1, 2}});
  evidence.change_source = [](Source* source) { source->infer_alone = {"advantage", "gold"}; };
  const auto warnings = [&](const std::string& from) {
    const Contract contract =
        Read("of: token, direction: lower, from: " + from, "mean_cost, atMost: 2");
    return Judge(contract, Measure(contract, evidence), {}).warnings;
  };
  EXPECT_THAT(warnings("token.gold"), Contains(HasSubstr("labels are the infer trace's word")));
  EXPECT_THAT(warnings("abs(token.advantage)"), Contains(HasSubstr("advantages are the infer")));
  EXPECT_TRUE(warnings("-token.logprob").empty());
}

// --- Windows.

TEST(OwnMetric, WindowsByRequestsAreFilledAndMerged) {
  const Contract contract =
      Read(kCost, "mean_cost, atMost: 2, exceedance: 30%, window: 2 requests");
  Evidence evidence = Costs({1, 2, 9, 9, 1, 1, 1, 1});
  for (size_t i = 0; i < evidence.requests.size(); ++i) {
    evidence.requests[i].Both("ordinal", static_cast<double>(i));
  }
  const Summary summary = Measure(contract, evidence);
  const SliceVerdict verdict = JudgeOne(contract, summary);
  EXPECT_EQ(verdict.verdict(), kSatisfied) << verdict.about.reason;
  EXPECT_EQ(verdict.exceedance->windows, 4);
  EXPECT_EQ(verdict.exceedance->exceeding, 1);
  const Result<Summary> again = DecodeSummary(EncodeSummary(summary));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(JudgeOne(contract, *again).verdict(), kSatisfied);
}

}  // namespace
}  // namespace kcc
