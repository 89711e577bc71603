#include "kcc/experiment/e3.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kcc {
namespace {

// A run whose reward is given by step, without a gap where nothing else is said.
RunCurves CurvesOf(const std::vector<double>& reward) {
  RunCurves made;
  made.name = "run";
  made.last_step = static_cast<double>(reward.size());
  for (size_t i = 0; i < reward.size(); ++i) {
    const auto step = static_cast<double>(i + 1);
    made.curves["reward"].push_back({step, reward[i]});
    made.curves["tokens"].push_back({step, 100});
    made.curves["metrics token.mean_k3"].push_back({step, 0.001 * step});
    made.curves["klToReference"].push_back({step, 0.01});
  }
  for (const char* key : {"held out rewardTrain", "held out rewardInfer"}) {
    made.curves[key] = {{0, 0.4}, {made.last_step, 0.6}};
  }
  return made;
}

std::vector<double> Steps(std::initializer_list<std::pair<int, double>> parts) {
  std::vector<double> made;
  for (const auto& [count, value] : parts)
    made.insert(made.end(), static_cast<size_t>(count), value);
  return made;
}

E3Run MustRead(const RunCurves& curves) {
  const Result<E3Run> run = ReadE3Run(curves, 10);
  EXPECT_TRUE(run.has_value());
  return *run;
}

TEST(E3Cells, AreThoseOfTheExperimentAndNotTheFullFactorial) {
  const std::vector<E3Cell> cells = E3Cells();
  std::set<std::string> names;
  std::map<std::string, int> parts;
  for (const E3Cell& cell : cells) {
    names.insert(cell.name);
    ++parts[cell.part];
    EXPECT_EQ(cell.name.find('/'), std::string::npos) << "is a folder's name";
    const auto options = E3RunOptions(cell, {}, 10, 0.01);
    ASSERT_TRUE(options.has_value()) << cell.name;
    EXPECT_TRUE(CheckRlOptions(*options).has_value()) << cell.name;
    EXPECT_EQ(cell.recompute.empty(), options->old_policy == OldPolicy::kBypass);
    EXPECT_FALSE(options->obey);
  }
  EXPECT_EQ(names.size(), cells.size());
  const std::map<std::string, int> expected = {{"GRPO", 27}, {"PPO", 4}, {"2x2", 2}, {"rate", 2}};
  EXPECT_EQ(parts, expected);
}

TEST(E3Cells, OnlyTheRateCellsHaveAnotherLearningRate) {
  for (const E3Cell& cell : E3Cells()) EXPECT_EQ(cell.part == "rate", cell.rate != kE3Rate);
}

TEST(E3Cells, AFittedCellRejectsAtItsKernelsThreshold) {
  const auto cells = ChooseE3Cells("int4-tis-rs,int4-tis-rs-fitted");
  ASSERT_TRUE(cells.has_value());
  ASSERT_EQ(cells->size(), 2u);
  for (const E3Cell& cell : *cells) {
    const auto options = E3RunOptions(cell, {}, 10, 0.0123);
    ASSERT_TRUE(options.has_value());
    EXPECT_EQ(options->correction.reject.front().high, cell.fitted ? 0.0123 : 0.001);
    EXPECT_EQ(options->correction.weight.mode, RlWeightMode::kTruncate);
  }
}

TEST(E3Cells, PatternsChooseInTheOrderOfTheList) {
  const auto names = [](std::string_view patterns) {
    std::string text;
    const auto cells = ChooseE3Cells(patterns);
    EXPECT_TRUE(cells.has_value());
    for (const E3Cell& cell : *cells) text += cell.name + " ";
    return text;
  };
  EXPECT_EQ(names("int3-bypass,exact"), "exact int3-bypass ");
  EXPECT_EQ(names("*-bypass,int4-bypass"),
            "fp8-bypass int4-bypass int4c-bypass int3-bypass ppo-int4-bypass ");
  EXPECT_EQ(ChooseE3Cells("*")->size(), E3Cells().size());
  EXPECT_EQ(ChooseE3Cells(kE3ShortCells)->size(), 4u);
  for (const char* none : {"", "int5", "exact,", "Exact"}) {
    EXPECT_FALSE(ChooseE3Cells(none).has_value()) << none;
  }
}

TEST(E3Cells, TheCostGrowsWithStepsSeedsAndAlgorithm) {
  const E3Cell exact = ChooseE3Cells("exact")->front(), ppo = ChooseE3Cells("ppo-exact")->front();
  EXPECT_NEAR(E3CpuSeconds(exact, {100, 1, 0}), 50, 1e-9);
  EXPECT_NEAR(E3CpuSeconds(exact, {100, 3, 0}), 150, 1e-9);
  EXPECT_GT(E3CpuSeconds(ppo, {100, 1, 0}), E3CpuSeconds(exact, {100, 1, 0}));
  EXPECT_GT(E3CpuSeconds(exact, {100, 1, 128}), E3CpuSeconds(exact, {100, 1, 0}));
}

TEST(E3Run, WindowsAreTheFirstStepsAndTheLastThird) {
  const E3Run run = MustRead(CurvesOf(Steps({{90, 0.5}})));
  EXPECT_EQ(run.steps, 90);
  EXPECT_EQ(run.tokens, 9000);
  EXPECT_EQ(run.start_train, 0.4);
  EXPECT_EQ(run.reward_train, 0.6) << "the point before the first step is not of the last third";
  const auto late = run.late("k3");
  ASSERT_TRUE(late.has_value());
  EXPECT_NEAR(*late, 0.001 * 75.5, 1e-12);  // steps 61 to 90
  EXPECT_FALSE(run.late("ESS").has_value());
}

TEST(E3Run, FailuresAreCalledByHowTheyCome) {
  const std::vector<double> drop = Steps({{120, 0.5}, {60, 0.0}});
  const E3Run sudden = MustRead(CurvesOf(drop));
  EXPECT_EQ(sudden.failure, E3Failure::kSuddenDrop);
  EXPECT_EQ(sudden.fell, 141) << "21 of 40 steps without reward";
  EXPECT_NEAR(*sudden.k3_before_fall, 81.5 / 20.5, 1e-9) << "steps 62 to 101 over 1 to 40";

  RunCurves collapsed = CurvesOf(drop);
  for (CurvePoint& point : collapsed.curves["klToReference"]) point.value = 1;
  EXPECT_EQ(MustRead(collapsed).failure, E3Failure::kKlCollapse);

  std::vector<double> slope;
  for (int i = 0; i < 300; ++i) slope.push_back(0.6 * (1 - i / 300.0));
  EXPECT_EQ(MustRead(CurvesOf(slope)).failure, E3Failure::kDecline);

  RunCurves hacked = CurvesOf(Steps({{90, 0.3}, {90, 0.9}}));
  hacked.curves["held out rewardTrain"].back().value = 0.1;
  EXPECT_EQ(MustRead(hacked).failure, E3Failure::kRewardHacking);

  for (const auto& fine : {Steps({{180, 0.5}}), Steps({{90, 0.5}, {90, 0.3}}), Steps({{3, 0.0}})}) {
    const E3Run run = MustRead(CurvesOf(fine));
    EXPECT_EQ(run.failure, E3Failure::kNone);
    EXPECT_FALSE(run.fell.has_value());
  }
}

TEST(E3Run, TheFirstViolationIsTheEarliestOfAllClauses) {
  RunCurves curves = CurvesOf(Steps({{5, 0.5}}));
  curves.clauses = {{"N-1/all", {{1, "satisfied"}, {4, "violated"}}},
                    {"N-2/pushed-up", {{2, "inconclusive"}, {3, "violated"}, {5, "violated"}}}};
  const E3Run run = MustRead(curves);
  ASSERT_TRUE(run.first_violation.has_value());
  EXPECT_EQ(run.first_violation->clause, "N-2/pushed-up");
  EXPECT_EQ(run.first_violation->step, 3);
}

TEST(E3Run, LogsWithoutRewardsAreBroken) {
  RunCurves curves = CurvesOf(Steps({{5, 0.5}}));
  curves.curves.erase("held out rewardInfer");
  EXPECT_FALSE(ReadE3Run(curves, 10).has_value());
}

TEST(E3Intervals, AreStudentsOverSeeds) {
  const E3Estimate three = StudentEstimate(std::vector{1.0, 2.0, 3.0});
  EXPECT_EQ(three.mean, 2);
  EXPECT_NEAR(*three.half, 4.302653 / std::sqrt(3.0), 1e-5);
  EXPECT_EQ(EstimateText(three), "2.000 ± 2.484");
  EXPECT_FALSE(StudentEstimate(std::vector{1.0}).half.has_value());
  EXPECT_EQ(EstimateText(StudentEstimate(std::vector{0.5})), "0.500 (1 run)");
}

TEST(E3Intervals, DifferencesAreOfTheSeedsThatBothHave) {
  const auto difference =
      PairedDifference({{10, 0.5}, {11, 0.7}, {12, 0.9}}, {{10, 0.4}, {11, 0.6}, {13, 0.0}});
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->runs, 2);
  EXPECT_NEAR(difference->mean, 0.1, 1e-12);
  EXPECT_NEAR(*difference->half, 0, 1e-6) << "the seeds' own spread cancels";
  EXPECT_FALSE(PairedDifference({{10, 0.5}}, {{11, 0.5}}).has_value());
}

// Results of runs that are made up: rewards of three seeds under the trained kernel.
class E3FindingsTest : public ::testing::Test {
 protected:
  E3FindingsTest() {
    result_.task = "products";
    result_.size = {985, 3, 128};
    for (const E3Cell& cell : E3Cells()) result_.cells.push_back({cell, {}});
  }

  void Add(std::string_view name, std::vector<double> rewards, std::vector<int64_t> falls = {}) {
    auto& cell = *std::find_if(result_.cells.begin(), result_.cells.end(),
                               [&](const auto& each) { return each.cell.name == name; });
    for (size_t s = 0; s < rewards.size(); ++s) {
      E3Run run;
      run.seed = 10 + s;
      run.steps = result_.size.steps;
      run.reward_train = run.reward_infer = rewards[s];
      if (s < falls.size()) run.fell = falls[s];
      cell.runs.push_back(run);
    }
  }

  std::string Seen(std::string_view beginning) const {
    for (const Finding& finding : E3Findings(result_)) {
      if (finding.predicted.starts_with(beginning)) {
        return std::string(FindingWord(finding)) + ": " + finding.seen;
      }
    }
    return "no such finding";
  }

  E3Result result_;
};

TEST_F(E3FindingsTest, WhatWasNotRunIsOpen) {
  for (const Finding& finding : E3Findings(result_)) {
    const bool bounds = finding.predicted.starts_with("Proposition 2");
    EXPECT_EQ(finding.open, !bounds) << finding.predicted;
    EXPECT_FALSE(finding.seen.empty());
  }
}

TEST_F(E3FindingsTest, ABypassThatHoldsFalsifiesOnlyAfterEnoughSteps) {
  Add("int3-bypass", {0, 0, 0}, {40, 40, 40});
  Add("int4c-bypass", {0.2, 0.3, 0.2}, {70, 100, 110});
  Add("int4-bypass", {0.5, 0.5, 0.5}, {270, 80});
  EXPECT_TRUE(Seen("mismatch alone").starts_with("no: ")) << Seen("mismatch alone");
  result_.size.steps = 300;
  EXPECT_TRUE(Seen("mismatch alone").starts_with("not run: ")) << Seen("mismatch alone");
}

TEST_F(E3FindingsTest, FallsInOrderAreSeen) {
  Add("int3-bypass", {0, 0}, {40, 40});
  Add("int4c-bypass", {0, 0}, {70, 100});
  Add("int4-bypass", {0, 0}, {270, 80});
  EXPECT_EQ(Seen("mismatch alone").substr(0, 4), "yes:");
  EXPECT_EQ(Seen("sooner"), "yes: mean step of the fall 40, 85, 175");
}

TEST_F(E3FindingsTest, DifferencesAreSeenNotSeenOrWithoutEffect) {
  Add("exact", {0.80, 0.82, 0.84});
  Add("fp8-bypass", {0.70, 0.72, 0.74});
  EXPECT_EQ(Seen("fp8 in bypass"), "yes: fp8-bypass minus exact: -0.100 ± 0.000");
  Add("int4", {0.84, 0.80, 0.82});
  EXPECT_TRUE(Seen("the rollout side").ends_with("no effect: the interval has 0"));
  EXPECT_TRUE(Seen("the rollout side").starts_with("no: "));
  Add("side-f32-int4", {0.1});
  EXPECT_TRUE(Seen("the recompute side").starts_with("not run: "));
  EXPECT_TRUE(Seen("the recompute side").ends_with("no interval"));
}

TEST_F(E3FindingsTest, NoCollapseFalsifiesOnlyAfterAsManySteps) {
  Add("int4", {0.8, 0.8, 0.8});
  EXPECT_TRUE(Seen("the second paper: with recomputed").starts_with("not run: "));
  result_.size.steps = 2000;
  EXPECT_TRUE(Seen("the second paper: with recomputed").starts_with("no: "));
}

// W10: a bound is falsified by a bias above it, and by nothing else.
TEST_F(E3FindingsTest, ABoundIsFalsifiedByABiasAboveItAlone) {
  GradientBias small{"none", 1e-9, 0, 1, 1.0, {}, 1, 1};
  result_.biases.exact = {small};
  EXPECT_EQ(Seen("Proposition 2").substr(0, 4), "yes:");
  result_.biases.exact[0].bias = 1.1;
  EXPECT_EQ(Seen("Proposition 2").substr(0, 4), "no: ");
}

}  // namespace
}  // namespace kcc
