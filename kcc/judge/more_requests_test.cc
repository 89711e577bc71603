#include "kcc/judge/more_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"

namespace kcc {
namespace {

using testing::Evidence;
using ::testing::HasSubstr;
using testing::JudgedRequest;
using testing::JudgedToken;
using ::testing::Not;

Contract ContractOf(const std::string& clause) {
  const ReadOutcome read = ReadContract(R"(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: more, version: 1.0.0}
spec:
  assumptions: {tokensMax: 4096}
  decision: {about: traffic}
  numerical:
    - {id: N-1, level: L2, )" + clause + "}\n");
  EXPECT_TRUE(read.contract.has_value());
  return *read.contract;
}

// Requests of one token each, one begun every `apart_ms`; 0: not timed.
std::string ReasonOf(const std::string& clause, double apart_ms, size_t timed = 30,
                     Stage stage = Stage::kOffline) {
  Evidence evidence;
  for (size_t i = 0; i < 30; ++i) {
    JudgedRequest& request = evidence.Add();
    JudgedToken token;
    request.tokens.push_back(token.Set("kl", 0.001).Set("top1_overlap", 1));
    request.Both("output_tokens", 1.0);
    if (apart_ms == 0 || i >= timed) continue;
    request.Both("started_at_ms", 1e12 + apart_ms * static_cast<double>(i));
    request.Both("latency_ms", apart_ms);
  }
  const Contract contract = ContractOf(clause);
  const Judgement judged = Judge(contract, testing::Measure(contract, evidence), {stage, {}});
  EXPECT_EQ(judged.verdict, Verdict::kInconclusive);
  return judged.clauses[0].slices[0].about.reason;
}

constexpr char kFlips[] = "metric: flip_rate, atMost: 0.1%";
constexpr char kSoft[] = "metric: mean_kl, atMost: 0.1, exceedance: 1%, window: request";

TEST(MoreRequests, AreSaidInTimeAtTheRateOfTheEvidence) {
  EXPECT_THAT(ReasonOf(kSoft, 1000),
              HasSubstr("about 269 more requests in slice all would settle it, 4.5 minutes at the "
                        "rate of this evidence (1 requests a second)"));
  EXPECT_THAT(ReasonOf(kSoft, 3.6e6), HasSubstr("11 days at the rate"));
}

TEST(MoreRequests, HaveNoTimeWhereARequestHasNone) {
  EXPECT_THAT(ReasonOf(kSoft, 0), Not(HasSubstr("at the rate")));
  EXPECT_THAT(ReasonOf(kSoft, 1000, 29), Not(HasSubstr("at the rate")));
}

TEST(MoreRequests, OfTokensSayWhichFormWouldDecideSooner) {
  EXPECT_THAT(ReasonOf(kFlips, 1000),
              HasSubstr("by request it is decided sooner: 299 requests, none of them beyond the "
                        "threshold, certify the clause with 'exceedance: 1%, window: request'"));
  EXPECT_THAT(ReasonOf(kSoft, 1000), Not(HasSubstr("sooner"))) << "it has that form";
}

// One flip in a request of few tokens puts the request beyond: the form by request asks for more.
TEST(MoreRequests, TheFormByRequestIsNotNamedWhereRequestsLieBeyondIt) {
  for (const bool flips : {false, true}) {
    Evidence evidence;
    for (size_t i = 0; i < 60; ++i) {
      JudgedRequest& request = evidence.Add();
      for (size_t t = 0; t < 4; ++t) {
        JudgedToken token;
        request.tokens.push_back(token.Set("top1_overlap", flips && i == 0 && t == 0 ? 0 : 1));
      }
      request.Both("output_tokens", 4.0);
    }
    const Contract contract = ContractOf("metric: flip_rate, atMost: 1%");
    const Judgement judged = Judge(contract, testing::Measure(contract, evidence));
    const std::string& reason = judged.clauses[0].slices[0].about.reason;
    EXPECT_THAT(reason, HasSubstr("more requests"));
    EXPECT_EQ(reason.find("sooner") == std::string::npos, flips) << reason;
  }
}

TEST(MoreRequests, OfASmallBudgetSayWhatAWiderOneNeeds) {
  EXPECT_THAT(ReasonOf("metric: mean_kl, atMost: 0.1, exceedance: 0.01%, window: request", 1000),
              HasSubstr("; 'exceedance: 1%' promises less and is decided sooner, with about 269 "
                        "more"));
}

TEST(MoreRequests, TheMeanOfAnUnboundedQuantityHasAFormThatCanBeCertified) {
  const std::string reason = ReasonOf("metric: mean_kl, atMost: 0.1", 1000);
  EXPECT_THAT(reason, HasSubstr("no sample can certify the mean of an unbounded quantity; 299 "
                                "requests, none of them beyond the threshold, certify the clause "
                                "with 'exceedance: 1%, window: request'"));
  EXPECT_THAT(reason, Not(HasSubstr("needs fewer"))) << "no number of requests certifies it";
}

// What is looked at again and again needs more of them.
TEST(MoreRequests, OfLaterStagesAreCountedByTheirOwnTest) {
  const std::string reason = ReasonOf(kFlips, 1000, 30, Stage::kCanary);
  EXPECT_THAT(reason, HasSubstr("by request it is decided sooner: "));
  EXPECT_THAT(reason, Not(HasSubstr("sooner: 299 ")));
}

// The form named holds what it promises.
TEST(MoreRequests, TheFormNamedIsCertifiedByThatMany) {
  for (const size_t count : {size_t{298}, size_t{299}}) {
    Evidence evidence;
    for (size_t i = 0; i < count; ++i) {
      JudgedToken token;
      evidence.Add().tokens.push_back(token.Set("top1_overlap", 1));
    }
    const Contract contract =
        ContractOf("metric: flip_rate, atMost: 0.1%, exceedance: 1%, window: request");
    EXPECT_EQ(Judge(contract, testing::Measure(contract, evidence)).verdict,
              count == 299 ? Verdict::kSatisfied : Verdict::kInconclusive);
  }
}

}  // namespace
}  // namespace kcc
