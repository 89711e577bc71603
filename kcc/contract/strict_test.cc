#include "kcc/contract/strict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/contract/canonical.h"
#include "kcc/contract/certifiable.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

Contract ContractOf(const std::string& metadata, const std::string& clauses,
                    const std::string& spec = "") {
  const ReadOutcome outcome =
      ReadContract("apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: a, version: 1.0.0" +
                   metadata + "}\nspec:\n" + spec + "  numerical:\n" + clauses);
  for (const Diagnostic& row : outcome.diagnostics) {
    if (row.kind == DiagnosticKind::kError) ADD_FAILURE() << row.message;
  }
  return outcome.contract.value_or(Contract());
}

TEST(CheckStrictly, AsksForReasonsAndForADate) {
  const Contract contract = ContractOf("",
                                       "    - {id: A, metric: mean_kl, atMost: 1, level: L1}\n"
                                       "    - {id: B, metric: mean_kl, atMost: 1, level: L2}\n"
                                       "    - {id: C, metric: mean_kl, atMost: 1, level: L3}\n"
                                       "    - {id: D, metric: mean_kl, atMost: 1, level: L3, "
                                       "why: measured}\n");
  std::vector<std::string> found;
  for (const Diagnostic& row : CheckStrictly(contract)) {
    EXPECT_EQ(row.kind, DiagnosticKind::kWarning);
    found.push_back(std::to_string(row.mark.line) + " " + row.code);
  }
  EXPECT_THAT(found, ::testing::ElementsAre("7 no-why", "8 no-why", "0 no-review-date"));
}

TEST(ReviewBy, IsADayOfTheCalendarAndPartOfTheIdentityWhereItIsSet) {
  const std::string clause = "    - {id: A, metric: mean_kl, atMost: 1, level: L1}\n";
  const Contract without = ContractOf("", clause);
  const Contract with = ContractOf(", reviewBy: 2028-02-29", clause);
  EXPECT_EQ(with.review_by, "2028-02-29");
  EXPECT_TRUE(CheckStrictly(with).empty());
  EXPECT_EQ(CanonicalJson(without).find("reviewBy"), std::string::npos);
  EXPECT_NE(ContractDigest(without), ContractDigest(with));
  for (const char* bad : {"2027-02-29", "2027-13-01", "2027-00-10", "2027-6-3", "soon",
                          "'2027-06-3'", "20270630", "2027-06-31", "0000-01-01"}) {
    const ReadOutcome outcome = ReadContract(
        "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: a, version: 1.0.0, reviewBy: " +
        std::string(bad) + "}\nspec:\n  numerical:\n" + clause);
    ASSERT_FALSE(outcome.diagnostics.empty()) << bad;
    EXPECT_EQ(outcome.diagnostics[0].code, "bad-date") << bad;
  }
}

TEST(WhyNeverCertified, KnowsEveryFormThatSamplesCannotShow) {
  struct Case {
    std::string clause;
    std::string assumptions;
    bool never;
  };
  const std::string tokens = "  assumptions: {tokensMax: 100}\n";
  const std::vector<Case> cases = {
      {"metric: mean_kl, atMost: 1", tokens, true},
      {"metric: mean_kl, atMost: 1, exceedance: 1%", "", false},
      {"metric: mean_kl, atMost: 1, exceedance: 1%, window: 1m", "", true},
      {"metric: mean_kl, atMost: 1, exceedance: 1%, window: 100 requests", "", false},
      {"metric: max_kl, atMost: 1", tokens, true},
      {"metric: p99_kl, atMost: 1", tokens, false},
      {"metric: p99_kl, atMost: 1", "", true},
      {"metric: mean_tv, atMost: 0.1", tokens, false},
      {"metric: mean_tv, atMost: 0.1", "", true},
      {"metric: p95_latency_ms, atMost: 4", "", false},
      {"metric: mean_latency_ms, atMost: 4", "", true},
      {"metric: max_latency_ms, atMost: 4", "", true},
      {"metric: failure_rate, atMost: 0.1%", "", false},
      {"metric: failure_rate, atMost: 0", "", true},
      {"metric: fingerprint_match_rate, atLeast: 1", "", true},
      {"metric: fingerprint_match_rate, atLeast: 0.99", "", false},
      {"metric: flip_rate, atMost: 1%", tokens, false},
      {"metric: flip_rate, atMost: 1%", "", true},
      {"metric: determinism_rate, atLeast: 0.999", "", true},
      {"metric: peak_memory_mb, atMost: 10", "", true},
      {"metric: throughput_tokens_per_s, atLeast: 10", "", true},
      {"metric: refusal_rate_gap, atMost: 1%", "", false},
  };
  for (const Case& one : cases) {
    const Contract contract =
        ContractOf("", "    - {id: A, " + one.clause + ", level: L1}\n", one.assumptions);
    ASSERT_EQ(contract.clauses.size(), 1u) << one.clause;
    EXPECT_EQ(!WhyNeverCertified(contract.clauses[0], contract.assumptions).empty(), one.never)
        << one.clause << " " << one.assumptions;
  }
}

TEST(UndecidableClauses, OfflineFollowsTheContractAndLaterStagesAreTraffic) {
  const std::string clause = "    - {id: A, metric: max_kl, atMost: 1, level: L1}\n";
  for (const auto& [decision, offline] :
       std::vector<std::pair<std::string, size_t>>{{"", 0},
                                                   {"  decision: {about: evaluation-set}\n", 0},
                                                   {"  decision: {about: traffic}\n", 1}}) {
    const Contract contract = ContractOf("", clause, decision);
    EXPECT_EQ(UndecidableClauses(contract, Stage::kOffline).size(), offline) << decision;
    EXPECT_EQ(UndecidableClauses(contract, Stage::kShadow).size(), 1u) << decision;
  }
}

}  // namespace
}  // namespace kcc
