// Windows by requests: which requests stand together is not infer's to choose, and a window that
// lacks requests is not left out where bad ones could hide in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/judge/clause_test_data.h"
#include "kcc/judge/judge.h"

namespace kcc::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTraffic[] = "  decision: {about: traffic}\n";

// Requests with these ordinals on both sides; those from `bad` on failed, with a reward of 0.
Evidence Ordinals(const std::vector<double>& ordinals, size_t bad) {
  Evidence evidence;
  for (size_t i = 0; i < ordinals.size(); ++i) {
    JudgedRequest& request = evidence.Add();
    request.Both("ordinal", ordinals[i]).Both("failed", i >= bad);
    request.Both("reward", i >= bad ? 0.0 : 1.0);
  }
  return evidence;
}

std::vector<double> From(double first, int count, double step = 1) {
  std::vector<double> ordinals;
  for (int i = 0; i < count; ++i) ordinals.push_back(first + step * i);
  return ordinals;
}

std::vector<double> Join(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

SliceVerdict First(const Contract& contract, const Summary& summary) {
  return Judge(contract, summary).clauses.at(0).slices.at(0);
}

TEST(Windows, ThatLackRequestsAreNotLeftOutAboutTraffic) {
  const char* clauses[] = {
      "failure_rate, atMost: 0.1, exceedance: 5%, window: 2 requests",
      "min_reward, atLeast: 0.5, exceedance: 5%, window: 2 requests",
  };
  for (const char* text : clauses) {
    const Contract contract = OneClause(text, kTraffic);
    const auto about = [&](const std::vector<double>& ordinals, size_t bad) {
      return First(contract, Measure(contract, Ordinals(ordinals, bad))).about;
    };
    EXPECT_EQ(about(From(0, 120), 120).verdict, Verdict::kSatisfied) << text;
    // Each bad request is alone in its window, which never fills.
    const PopulationVerdict gaps = about(Join(From(0, 120), From(240, 300, 2)), 120);
    EXPECT_EQ(gaps.verdict, Verdict::kInconclusive) << text << ": " << gaps.reason;
    EXPECT_THAT(gaps.reason, HasSubstr("299 of these windows lack requests")) << text;
    // Good ones that are alone count against it too: what is missing could be anything.
    EXPECT_EQ(about(Join(From(0, 120), From(240, 300, 2)), 420).verdict, Verdict::kInconclusive);
    // Evidence may begin and end within a window.
    EXPECT_EQ(about(From(1001, 122), 122).verdict, Verdict::kSatisfied) << text;
  }
}

TEST(Windows, ThatLackRequestsStandAsTheyAreInAnEvaluationSet) {
  const Contract contract =
      OneClause("failure_rate, atMost: 0.1, exceedance: 5%, window: 2 requests");
  const Evidence evidence = Ordinals(Join(From(0, 120), From(240, 300, 2)), 120);
  EXPECT_EQ(First(contract, Measure(contract, evidence)).about.verdict, Verdict::kViolated);
}

// Even requests are bad. Train asked them in order; infer says that the bad ones came together.
Evidence Rearranged() {
  Evidence evidence;
  for (int i = 0; i < 20; ++i) {
    JudgedRequest& request = evidence.Add();
    request.train.fields["ordinal"] = static_cast<double>(i);
    request.infer.fields["ordinal"] = static_cast<double>(i / 2 + 10 * (i % 2));
    request.train.fields["started_at_ms"] = 500.0 * i;
    request.infer.fields["started_at_ms"] = 500.0 * (i / 2 + 10 * (i % 2));
    request.Both("reward", i % 2 == 0 ? 0.0 : 1.0).Both("latency_ms", i % 2 == 0 ? 900.0 : 100.0);
    request.Both("tool_errors", i % 2 == 0 ? 2.0 : 0.0);
  }
  return evidence;
}

TEST(Windows, OfWhatIsNotRuntimeAreCutByTrainsWord) {
  const std::string own =
      "  metrics:\n    - {name: errors, of: request, from: tool_errors, direction: lower}\n"
      "    - {name: wait, of: request, from: latency_ms - 1, unit: ms, direction: lower}\n";
  const struct {
    const char* clause;
    Verdict verdict;
  } rows[] = {
      {"min_reward, atLeast: 0.5, exceedance: 50%, window: 2 requests", Verdict::kViolated},
      {"min_reward, atLeast: 0.5, exceedance: 50%, window: 1s", Verdict::kViolated},
      {"max_errors, atMost: 1, exceedance: 50%, window: 2 requests", Verdict::kViolated},
      // What its run took is placed by its own times: docs/semantics.md says so.
      {"max_latency_ms, atMost: 400, exceedance: 50%, window: 2 requests", Verdict::kSatisfied},
      {"max_wait, atMost: 400, exceedance: 50%, window: 2 requests", Verdict::kSatisfied},
      {"max_train_latency_ms, atMost: 400, exceedance: 50%, window: 2 requests",
       Verdict::kViolated},
  };
  for (const auto& row : rows) {
    const Contract contract = OneClause(row.clause, own);
    const SliceVerdict verdict = First(contract, Measure(contract, Rearranged()));
    EXPECT_EQ(verdict.about.verdict, row.verdict) << row.clause << ": " << verdict.about.reason;
  }
}

TEST(Windows, OfASummaryOfBeforeThatInferCutDecideNothing) {
  const Contract contract =
      OneClause("min_reward, atLeast: 0.5, exceedance: 50%, window: 2 requests");
  std::string json = Plan::FromContract(contract).CanonicalJson();
  const std::string placed = "\"placedBy\":\"train\",";
  ASSERT_THAT(json, HasSubstr(placed));
  json.erase(json.find(placed), placed.size());
  const Result<Plan> before = Plan::Parse(json);
  ASSERT_TRUE(before.has_value()) << before.error().Format();
  EXPECT_EQ(before->CanonicalJson(), json);
  const SliceVerdict verdict = First(contract, Measure(*before, Rearranged()));
  EXPECT_EQ(verdict.about.verdict, Verdict::kInconclusive);
  EXPECT_THAT(verdict.about.reason, HasSubstr("may have cut"));
}

// Infer alone numbers the requests, so that the bad ones share windows.
Evidence NumberedByInfer() {
  Evidence evidence;
  for (int i = 0; i < 20; ++i) {
    JudgedRequest& request = evidence.Add();
    request.infer.fields["ordinal"] = static_cast<double>(i / 2 + 10 * (i % 2));
    request.tokens.push_back(JudgedToken().Set("abs_log_ratio", i % 2 == 0 ? 0.5 : 0));
  }
  evidence.change_source = [](Source* source) { source->infer_alone = {"ordinal"}; };
  return evidence;
}

TEST(Windows, TrustOfTheMeasuringContractIsNotThatOfTheJudgingOne) {
  const std::string clause = "max_abs_log_ratio, atMost: 0.1, exceedance: 50%, window: 2 requests";
  const Contract trusting = OneClause(clause, "  evidence: {trust: [ordinal]}\n");
  const Contract other = OneClause(clause);
  const Summary summary = Measure(trusting, NumberedByInfer());
  EXPECT_EQ(First(trusting, summary).about.verdict, Verdict::kSatisfied);
  EXPECT_THAT(Judge(trusting, summary).warnings, Not(IsEmpty()));
  const SliceVerdict verdict = First(other, summary);
  EXPECT_EQ(verdict.about.verdict, Verdict::kInconclusive);
  EXPECT_THAT(verdict.about.reason, HasSubstr("which the contract does not trust"));
  // Measured without trust, a contract that trusts has nothing that it could believe.
  EXPECT_EQ(First(trusting, Measure(other, NumberedByInfer())).about.verdict,
            Verdict::kInconclusive);
}

TEST(Windows, AWarningFindsTheSliceByItsMeaning) {
  const std::string clause = "max_abs_log_ratio, atMost: 1, slices: [kept]";
  const auto contract = [&](const std::string& name) {
    return Read("  evidence: {trust: [kept]}\n  slices:\n    - {name: " + name +
                ", where: kept == true}\n  numerical:\n"
                "    - {id: C, level: L2, metric: max_abs_log_ratio, atMost: 1, slices: [" +
                name + "]}\n");
  };
  Evidence evidence = Tokens("abs_log_ratio", {0.5});
  evidence.requests[0].infer.fields["kept"] = true;
  Summary summary = Measure(contract("kept"), evidence);
  for (SliceStats& slice : summary.slices) slice.unvouched = {{"kept", 1}};
  for (const char* name : {"kept", "renamed"}) {
    const Judgement judgement = Judge(contract(name), summary);
    EXPECT_EQ(judgement.clauses[0].slices[0].about.verdict, Verdict::kSatisfied);
    EXPECT_THAT(judgement.warnings, ::testing::Contains(HasSubstr("the contract trusts it")))
        << name;
  }
}

}  // namespace
}  // namespace kcc::testing
