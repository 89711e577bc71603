#include "kcc/summary/bets.h"

#include <gtest/gtest.h>

#include "kcc/stats/mean_bounds.h"
#include "kcc/stats/token_ratio.h"
#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::FakeRequest;
using testing::FakeToken;

TEST(Bets, OversizedRequestsBreakTheAssumptionAndAreCounted) {
  const BettingPlan plan = *MakeBettingPlan(0.01);
  BetSums sums;
  sums.Add(plan, 65, 0, 0, 64);
  EXPECT_EQ(sums.oversized, 1u);
  EXPECT_EQ(sums.sums.count, 0);
  sums.Add(plan, 64, 0, 0, 64);
  EXPECT_EQ(sums.sums.count, 1);
}

TEST(Bets, AreOnFileByTheirGrid) {
  for (const BetGrid grid : {BetGrid::kCoarse, BetGrid::kFine}) {
    const BettingPlan plan = *MakeBettingPlan(0.01, grid);
    BetSums sums;
    for (int i = 0; i < 5; ++i) sums.Add(plan, 60, i, i + 1, 64);
    Archive writer = Archive::Writer();
    sums.Visit(writer, grid);
    const std::string bytes = writer.Take();
    BetSums back;
    Archive reader = Archive::Reader(bytes);
    back.Visit(reader, grid);
    EXPECT_TRUE(reader.ok() && reader.AtEnd());
    EXPECT_EQ(back, sums);
    const BetGrid other = grid == BetGrid::kCoarse ? BetGrid::kFine : BetGrid::kCoarse;
    BetSums misread;
    Archive wrong = Archive::Reader(bytes);
    misread.Visit(wrong, other);
    EXPECT_FALSE(wrong.ok() && wrong.AtEnd()) << "the plan says which; the bytes do not fit else";
  }
}

// What the accumulator keeps for the one test of a contract on a slice, and the same by hand: bad
// is the token's bad mass at its low and high end, 0 and 1 where it is missing.
void ExpectSums(const std::string& metric, double threshold, bool intervals,
                std::pair<double, double> (*bad)(const TokenDrift&, const PlanTest&)) {
  Contract contract;
  contract.slices = {testing::MakeSlice("all", ""), testing::MakeSlice("even", "even == true"),
                     testing::MakeSlice("late", "token.position >= 3")};
  contract.assumptions.tokens_max = 64;
  contract.clauses = {testing::MakeClause(metric, BoundKind::kAtMost, threshold, {"all", "late"})};
  const Plan plan = Plan::FromContract(contract);
  const auto requests = testing::FakeEvidence(21).Requests(40, intervals);
  const Summary summary = testing::Accumulate(plan, requests);
  ASSERT_FALSE(plan.tests().empty());
  for (size_t at = 0; at < plan.tests().size(); ++at) {
    const PlanTest& test = plan.tests()[at];
    const BettingPlan bets = *MakeBettingPlan(TestMean(test));
    for (const char* name : {"all", "late"}) {
      const auto slice = static_cast<size_t>(plan.FindSlice(name));
      BetSums expected;
      for (const FakeRequest& request : requests) {
        double tokens = 0, low = 0, high = 0;
        for (const FakeToken& token : request.tokens) {
          if (!testing::InSlice(plan.slices()[slice], request, &token)) continue;
          const auto mass = bad(token.drift, test);
          ++tokens;
          low += mass.first;
          high += mass.second;
        }
        if (tokens > 0) expected.Add(bets, tokens, low, high, 64);
      }
      EXPECT_EQ(summary.slices[slice].tests[at], expected) << metric << " " << name;
      EXPECT_GT(expected.sums.count, 10);
    }
    const auto even = static_cast<size_t>(plan.FindSlice("even"));
    EXPECT_EQ(summary.slices[even].tests[at].sums.count, 0) << "the clause does not name it";
  }
}

TEST(Bets, ATokenPercentileCountsExceedancesPerRequest) {
  for (const bool intervals : {false, true}) {
    ExpectSums("p99_kl", 0.5, intervals, [](const TokenDrift& drift, const PlanTest&) {
      const size_t kl = TokenSlot("kl");
      if (!drift.known[kl]) return std::pair(0.0, 1.0);
      return std::pair(drift.lo[kl] > 0.5 ? 1.0 : 0.0, drift.hi[kl] > 0.5 ? 1.0 : 0.0);
    });
  }
}

TEST(Bets, AMeanWithoutAnUpperEndIsTruncatedTokenByToken) {
  // Multiples of 1/16 over caps that are powers of two: no sum is rounded.
  ExpectSums("mean_kl", 0.25, true, [](const TokenDrift& drift, const PlanTest& test) {
    const size_t kl = TokenSlot("kl");
    if (!drift.known[kl]) return std::pair(0.0, 1.0);
    const double cap = test.range_max;
    return std::pair(std::min(drift.lo[kl], cap) / cap, std::min(drift.hi[kl], cap) / cap);
  });
}

TEST(Bets, AMissingRewardMayBeAnything) {
  Contract contract;
  contract.slices = {testing::MakeSlice("all", "")};
  contract.assumptions.reward_max = 1;
  contract.clauses = {testing::MakeClause("mean_reward", BoundKind::kAtLeast, 0)};
  const Plan plan = Plan::FromContract(contract);
  FakeRequest without("a");
  FakeRequest with("b");
  with.infer.fields["reward"] = 0.5;
  const Summary summary = testing::Accumulate(plan, {without, with});
  BetSums expected;
  const BettingPlan bets = *MakeBettingPlan(0.5);
  expected.Add(bets, 1, 0, 1, 1);
  expected.Add(bets, 1, 0.25, 0.25, 1);
  EXPECT_EQ(summary.slices[0].tests[0], expected);
}

}  // namespace
}  // namespace kcc
