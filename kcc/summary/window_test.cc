#include "kcc/summary/window.h"

#include <gtest/gtest.h>

#include "kcc/summary/file.h"
#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::Accumulate;
using testing::FakeRequest;
using testing::FakeToken;
using testing::MakeSlice;
using testing::SoftClause;

constexpr auto kAtMost = BoundKind::kAtMost;
const Window kByTwo{Window::Kind::kRequests, 2};
const Window kBySecond{Window::Kind::kTime, 1000};

Plan PlanOf(std::vector<Clause> clauses) {
  Contract contract;
  contract.slices = {MakeSlice("all", ""), MakeSlice("even", "even == true"),
                     MakeSlice("late", "token.position >= 3")};
  contract.clauses = std::move(clauses);
  return Plan::FromContract(contract);
}

FakeRequest WithKl(int ordinal, std::vector<double> values) {
  FakeRequest request("r" + std::to_string(ordinal));
  request.Both("ordinal", static_cast<double>(ordinal));
  request.Both("started_at_ms", 400.0 * ordinal);
  request.Both("even", ordinal % 2 == 0);
  for (const double value : values) {
    FakeToken token;
    token.position = static_cast<int32_t>(request.tokens.size());
    token.drift.Set(TokenSlot("kl"), value);
    request.tokens.push_back(token);
  }
  return request;
}

WindowOutcome Outcome(const Summary& summary, const std::string& slice, const std::string& metric,
                      const Window& window, double threshold) {
  const auto outcome = SliceWindows(summary, static_cast<size_t>(summary.plan.FindSlice(slice)),
                                    *ParseMetric(metric), window, threshold);
  EXPECT_TRUE(outcome.has_value());
  return outcome.value_or(WindowOutcome());
}

TEST(Window, EachRequestIsAWindow) {
  const Plan plan = PlanOf({SoftClause("mean_kl", kAtMost, 0.5, {}, {"all", "even", "late"})});
  const Summary summary = Accumulate(plan, {WithKl(0, {0.5, 0.5}), WithKl(1, {0.5, 0.75}),
                                            WithKl(2, {}), WithKl(3, {0, 0, 0, 1})});
  const WindowOutcome all = Outcome(summary, "all", "mean_kl", {}, 0.5);
  EXPECT_EQ(all.folded.windows, 3u);
  EXPECT_EQ(all.folded.undefined, 1u) << "a request without tokens has no mean";
  EXPECT_EQ(all.folded.beyond, (Beyond{1, 1, 1, 1})) << "exactly at the threshold is not beyond it";
  EXPECT_EQ(Outcome(summary, "even", "mean_kl", {}, 0.5).folded.beyond, Beyond());
  const WindowOutcome late = Outcome(summary, "late", "mean_kl", {}, 0.5);
  EXPECT_EQ(late.folded.windows, 1u);
  EXPECT_EQ(late.folded.beyond.above_sure, 1u) << "the slice's tokens alone";
}

TEST(Window, PercentilesInAWindowAreDecidedExactly) {
  // Both values fall into one histogram bucket; only the counters can tell.
  const double t = 0.5;
  const double above = std::nextafter(t, 1);
  const Plan plan = PlanOf({SoftClause("p50_kl", kAtMost, t, {})});
  const Summary summary =
      Accumulate(plan, {WithKl(0, {t, t, above}), WithKl(1, {t, above, above})});
  EXPECT_EQ(Outcome(summary, "all", "p50_kl", {}, t).folded.beyond, (Beyond{1, 1, 0, 0}));
}

TEST(Window, MinimumAndMaximumAreTheirOwnQuantiles) {
  const Plan plan = PlanOf({SoftClause("max_kl", kAtMost, 0.5, {}),
                            SoftClause("min_kl", BoundKind::kAtLeast, 0.25, {})});
  const Summary summary = Accumulate(plan, {WithKl(0, {0.2, 0.5}), WithKl(1, {0.25, 0.6})});
  EXPECT_EQ(Outcome(summary, "all", "max_kl", {}, 0.5).folded.beyond, (Beyond{1, 1, 0, 0}));
  EXPECT_EQ(Outcome(summary, "all", "min_kl", {}, 0.25).folded.beyond, (Beyond{0, 0, 1, 1}));
}

TEST(Window, IntervalsMakeAWindowPossibleButNotSure) {
  const Plan plan = PlanOf({SoftClause("mean_kl", kAtMost, 0.5, {})});
  FakeRequest request = WithKl(0, {0.4, 0.4});
  request.tokens[0].drift.SetInterval(TokenSlot("kl"), 0.4, 0.7);
  const Summary summary = Accumulate(plan, {request});
  EXPECT_EQ(Outcome(summary, "all", "mean_kl", {}, 0.5).folded.beyond, (Beyond{0, 1, 0, 1}));
}

TEST(Window, OfRequestsTravelsUntilComplete) {
  const Plan plan = PlanOf({SoftClause("mean_kl", kAtMost, 0.5, kByTwo, {"all", "even"})});
  const Summary first = Accumulate(plan, {WithKl(0, {0.9}), WithKl(3, {0.9})});
  WindowOutcome outcome = Outcome(first, "all", "mean_kl", kByTwo, 0.5);
  EXPECT_EQ(outcome.folded.windows, 0u);
  EXPECT_EQ(outcome.open.windows, 2u);
  EXPECT_EQ(outcome.open.beyond.above_sure, 2u) << "as they stand";
  const Summary second = Accumulate(plan, {WithKl(1, {0.9}), WithKl(2, {0})});
  const Summary merged = *Merge(first, second);
  outcome = Outcome(merged, "all", "mean_kl", kByTwo, 0.5);
  EXPECT_EQ(outcome.open.windows, 0u);
  EXPECT_EQ(outcome.folded.windows, 2u);
  EXPECT_EQ(outcome.folded.beyond.above_sure, 1u);
  EXPECT_EQ(Outcome(merged, "even", "mean_kl", kByTwo, 0.5).folded.windows, 2u)
      << "a window is complete when all its requests were seen, in the slice or not";
}

TEST(Window, OrdinalsThatRepeatAreAnErrorInAnyOrder) {
  const Plan plan = PlanOf({SoftClause("mean_kl", kAtMost, 0.5, kByTwo)});
  const Summary complete = Accumulate(plan, {WithKl(0, {0}), WithKl(1, {0})});
  FakeRequest again = WithKl(1, {0});
  again.train.id = again.infer.id = "other";
  const Summary late = Accumulate(plan, {again});
  for (const auto& merged : {Merge(complete, late), Merge(late, complete)}) {
    ASSERT_FALSE(merged.has_value());
    EXPECT_NE(merged.error().message().find("ordinals must be distinct"), std::string::npos);
  }
  FakeRequest third = WithKl(0, {0});
  third.train.id = third.infer.id = "third";
  Accumulator accumulator(plan, {});
  for (const FakeRequest& request : {WithKl(0, {0}), WithKl(1, {0}), third}) {
    testing::Feed(plan, request, &accumulator);
  }
  EXPECT_FALSE(accumulator.Finish().has_value());
}

TEST(Window, OfTimeIsAlignedToTheEpochAndStaysOpen) {
  const Plan plan = PlanOf({SoftClause("mean_kl", kAtMost, 0.5, kBySecond)});
  // 0, 400 and 800 ms in the first second; 1200 in the next.
  const Summary summary =
      Accumulate(plan, {WithKl(0, {0.6}), WithKl(1, {0.6}), WithKl(2, {0}), WithKl(3, {0.6})});
  const WindowOutcome outcome = Outcome(summary, "all", "mean_kl", kBySecond, 0.5);
  EXPECT_EQ(outcome.folded.windows, 0u);
  EXPECT_EQ(outcome.open.windows, 2u);
  EXPECT_EQ(outcome.open.beyond.above_sure, 1u);
}

TEST(Window, RequestsWithoutAPlaceAreCounted) {
  const Plan plan = PlanOf({SoftClause("mean_kl", kAtMost, 0.5, kByTwo)});
  FakeRequest lost = WithKl(5, {1});
  lost.train.fields.erase("ordinal");
  lost.infer.fields["ordinal"] = std::string("five");
  const Summary summary = Accumulate(plan, {lost});
  EXPECT_EQ(Outcome(summary, "all", "mean_kl", kByTwo, 0.5).folded.unplaced, 1u);
}

TEST(Window, WhatThePlanLacksIsNotAnswered) {
  const Plan plan = PlanOf({SoftClause("mean_kl", kAtMost, 0.5, kByTwo)});
  const Summary summary = Accumulate(plan, {});
  const Metric kl = *ParseMetric("mean_kl");
  const auto all = static_cast<size_t>(plan.FindSlice("all"));
  EXPECT_TRUE(SliceWindows(summary, all, kl, kByTwo, 0.5).has_value());
  EXPECT_FALSE(SliceWindows(summary, all, kl, kByTwo, 0.4).has_value());
  EXPECT_FALSE(SliceWindows(summary, all, kl, kBySecond, 0.5).has_value());
  EXPECT_FALSE(SliceWindows(summary, static_cast<size_t>(plan.FindSlice("even")), kl, kByTwo, 0.5));
}

TEST(WindowSet, JoinsRunsInAnyOrder) {
  WindowSet set;
  for (const int64_t index : {5, 3, 9, 4, 8, -1}) set.AddRun(index, index);
  using Runs = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(set.runs(), (Runs{{-1, -1}, {3, 5}, {8, 9}}));
  set.AddRun(6, 7);
  EXPECT_EQ(set.runs(), (Runs{{-1, -1}, {3, 9}}));
  EXPECT_TRUE(set.Contains(6));
  EXPECT_FALSE(set.Contains(10));
  EXPECT_FALSE(set.Contains(2));
}

}  // namespace
}  // namespace kcc
