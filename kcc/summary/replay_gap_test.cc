#include "kcc/summary/replay_gap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/summary/file.h"
#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::Accumulate;
using testing::FakeRequest;
using testing::FakeToken;
using testing::MakeClause;

constexpr double kInf = std::numeric_limits<double>::infinity();

// A request of one group whose tokens have these log-probs under infer.
FakeRequest Asked(const std::string& id, const std::string& group, std::vector<double> logprobs,
                  const std::string& replica = "") {
  FakeRequest request(id);
  if (!group.empty()) request.Both("replay_group", group);
  if (!replica.empty()) request.infer.fields["replica"] = replica;
  for (size_t i = 0; i < logprobs.size(); ++i) {
    FakeToken token;
    token.position = static_cast<int32_t>(i);
    token.token = static_cast<int32_t>(7 + i);
    token.drift.logprob = {-1.0, -1.0};
    token.drift.logprob[static_cast<size_t>(Side::kInfer)] = logprobs[i];
    request.tokens.push_back(token);
  }
  return request;
}

Contract GapContract(bool trusts_replica = false) {
  Contract contract;
  contract.name = "test";
  contract.slices = {testing::MakeSlice("all", "")};
  contract.clauses = {MakeClause("replay_logprob_gap", BoundKind::kAtMost, 1e-6),
                      MakeClause("replay_ulp_gap", BoundKind::kAtMost, 1)};
  if (trusts_replica) contract.trust = {"replica"};
  return contract;
}

PopulationValue Gap(const std::vector<FakeRequest>& requests, const char* metric,
                    bool by_replica = false) {
  const Plan plan = Plan::FromContract(GapContract(by_replica));
  return SlicePopulation(Accumulate(plan, requests), 0, *ParseMetric(metric));
}

TEST(ReplayGap, IsTheLargestDistanceAmongTheRepeatsOfARequest) {
  const std::vector<FakeRequest> requests = {
      Asked("a", "a", {-1, -2}), Asked("a#2", "a", {-1.25, -2}), Asked("a#3", "a", {-1.125, -2.5}),
      Asked("b", "b", {-9}), Asked("b#2", "b", {-9})};
  const PopulationValue gap = Gap(requests, "replay_logprob_gap");
  EXPECT_EQ(gap.value.lo, 0.5);
  EXPECT_EQ(gap.count, 3u);  // two repeats of a, one of b
  EXPECT_EQ(gap.missing, 0u);
  EXPECT_EQ(Gap(requests, "train_replay_logprob_gap").value.lo, 0);
}

TEST(ReplayGap, UnitsOfTheLastPlaceAreThoseOfFloat32) {
  const float one = -1.5f;
  const float next = std::nextafter(std::nextafter(one, 0.0f), 0.0f);
  EXPECT_EQ(Gap({Asked("a", "a", {one}), Asked("b", "a", {next})}, "replay_ulp_gap").value.hi, 2);
  EXPECT_EQ(Gap({Asked("a", "a", {0.0}), Asked("b", "a", {-0.0})}, "replay_ulp_gap").value.hi, 0);
  // What float32 cannot tell apart is still apart in nat.
  const std::vector<FakeRequest> close = {Asked("a", "a", {-1}), Asked("b", "a", {-1 - 1e-12})};
  EXPECT_EQ(Gap(close, "replay_ulp_gap").value.hi, 0);
  EXPECT_GT(Gap(close, "replay_logprob_gap").value.hi, 0);
}

TEST(ReplayGap, WhatWasAskedOnceIsMissingAndNotAlike) {
  const PopulationValue once =
      Gap({Asked("a", "a", {-1}), Asked("b", "b", {-1})}, "replay_logprob_gap");
  EXPECT_EQ(once.count, 0u);
  EXPECT_EQ(once.missing, 2u);
  // Nor may one that was not repeated hide behind one that was.
  const PopulationValue some = Gap(
      {Asked("a", "a", {-1}), Asked("a#2", "a", {-1}), Asked("b", "b", {-1}), Asked("c", "", {-1})},
      "replay_logprob_gap");
  EXPECT_EQ(some.count, 1u);
  EXPECT_EQ(some.missing, 2u);
}

TEST(ReplayGap, GroupsOfOtherTokensAreMissing) {
  const PopulationValue lengths =
      Gap({Asked("a", "a", {-1}), Asked("b", "a", {-1, -1})}, "replay_logprob_gap");
  EXPECT_EQ(lengths.count, 0u);
  EXPECT_EQ(lengths.missing, 2u);
  FakeRequest other = Asked("b", "a", {-1});
  other.tokens[0].token = 99;
  EXPECT_EQ(Gap({Asked("a", "a", {-1}), other}, "replay_logprob_gap").missing, 2u);
  // Log-probs that are not known, and requests without any token.
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Gap({Asked("a", "a", {unknown}), Asked("b", "a", {-1})}, "replay_logprob_gap").missing,
            2u);
  EXPECT_EQ(Gap({Asked("a", "a", {}), Asked("b", "a", {})}, "replay_logprob_gap").missing, 2u);
}

TEST(ReplayGap, ImpossibleTokensAreInfinitelyFarFromPossibleOnes) {
  EXPECT_EQ(
      Gap({Asked("a", "a", {-kInf}), Asked("b", "a", {-kInf})}, "replay_logprob_gap").value.hi, 0);
  EXPECT_EQ(Gap({Asked("a", "a", {-kInf}), Asked("b", "a", {-1})}, "replay_logprob_gap").value.hi,
            kInf);
}

TEST(ReplayGap, ReplicasAreToldApartOnlyWhereTheContractTrustsThem) {
  const std::vector<FakeRequest> requests = {Asked("a", "a", {-1}, "x"), Asked("b", "a", {-1}, "x"),
                                             Asked("c", "a", {-2}, "y"),
                                             Asked("d", "a", {-2}, "y")};
  EXPECT_EQ(Gap(requests, "replay_logprob_gap", false).value.hi, 1);
  EXPECT_EQ(Gap(requests, "replay_logprob_gap", true).value.hi, 0);
  EXPECT_EQ(Gap(requests, "replay_logprob_gap", true).count, 2u);
  // A replica that answered once shows nothing: no repeat escapes by a name of its own.
  EXPECT_EQ(
      Gap({Asked("a", "a", {-1}, "x"), Asked("b", "a", {-1}, "x"), Asked("c", "a", {-2}, "y")},
          "replay_logprob_gap", true)
          .missing,
      1u);
}

TEST(ReplayGap, TheOrderOfMergingDoesNotMatterAndFilesReadBack) {
  const Plan plan = Plan::FromContract(GapContract());
  std::vector<FakeRequest> requests = {Asked("a", "a", {-1, -2}), Asked("b", "a", {-1.5, -2}),
                                       Asked("c", "a", {-1}),     Asked("d", "b", {-3}),
                                       Asked("e", "b", {-3.25}),  Asked("f", "c", {-1})};
  const std::string whole = EncodeSummary(Accumulate(plan, requests));
  std::vector<size_t> order = {0, 1, 2, 3, 4, 5};
  do {
    Summary merged = Accumulate(plan, {requests[order[0]]});
    for (size_t i = 1; i < order.size(); ++i) {
      auto next = Merge(merged, Accumulate(plan, {requests[order[i]]}));
      ASSERT_TRUE(next.has_value()) << next.error().Format();
      merged = *std::move(next);
    }
    ASSERT_EQ(EncodeSummary(merged), whole);
  } while (std::next_permutation(order.begin(), order.end()) && order[0] < 2);
  const auto read = DecodeSummary(whole);
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(SlicePopulation(*read, 0, *ParseMetric("replay_logprob_gap")).value.hi, 0.25);
}

TEST(ReplayGap, TheJudgedSideDoesNotChooseWhichRepeatsMeetInAWindow) {
  PlanWindow window;
  window.metric = *ParseMetric("replay_logprob_gap");
  EXPECT_EQ(PlacementOf(window), Placement::kTrain);
}

TEST(ReplayGap, SummariesKeepItOnlyWhereAClauseAsks) {
  EXPECT_EQ(Plan::Default().repeats(), Repeats::kNone);
  EXPECT_EQ(Plan::Default().CanonicalJson().find("repeats"), std::string::npos);
  const Plan plan = Plan::FromContract(GapContract());
  const Plan by_replica = Plan::FromContract(GapContract(true));
  EXPECT_EQ(Plan::Parse(plan.CanonicalJson())->repeats(), Repeats::kByGroup);
  EXPECT_EQ(Plan::Parse(by_replica.CanonicalJson())->repeats(), Repeats::kByReplica);
  EXPECT_FALSE(Plan::Default().Covers(plan).has_value());
  EXPECT_FALSE(by_replica.Covers(plan).has_value());  // what it keeps is another question's answer
  EXPECT_TRUE(plan.Covers(plan).has_value());
}

}  // namespace
}  // namespace kcc
