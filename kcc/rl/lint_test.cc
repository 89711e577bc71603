// Lint in a world of two tokens a context, where everything is known: log-odds l of the sampled
// token's context, the engine's and the trainer's temperature, the sampler's, and noise in logits.
#include "kcc/rl/lint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kcc/rl/lint_odds.h"
#include "kcc/rl/rl_json.h"
#include "kcc/rl/rl_test_data.h"

namespace kcc {
namespace {

struct World {
  double sampled_at = 1, rollout_at = 1, train_at = 1;  // temperatures
  double noise = 0.02;                                  // of train's log-odds
  double spread = 3;                                    // of the contexts' log-odds
};

double LogSigmoid(double x) { return -std::log1p(std::exp(-x)); }

testing::OwnedBatch Draw(const World& world, int64_t rows, int64_t columns, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  testing::OwnedBatch batch;
  batch.rows = rows;
  batch.columns = columns;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const double odds = world.spread * normal(random);
    const bool first = uniform(random) < 1 / (1 + std::exp(-odds / world.sampled_at));
    const double own = first ? odds : -odds;
    batch.rollout.push_back(LogSigmoid(own / world.rollout_at));
    batch.train.push_back(LogSigmoid((own + world.noise * normal(random)) / world.train_at));
  }
  return batch;
}

RlFinding Found(const testing::OwnedBatch& batch) {
  const auto report = LintRl(batch.View());
  EXPECT_TRUE(report.has_value());
  if (!report.has_value() || report->findings.empty()) return {};
  return report->findings.front();
}

std::string_view Named(const testing::OwnedBatch& batch) { return RlFaultName(Found(batch).fault); }

TEST(RlLintOdds, LogOddsAreTheLogitOfAProbability) {
  EXPECT_NEAR(LogOdds(std::log(0.5)), 0, 1e-12);
  EXPECT_NEAR(LogOdds(std::log(0.9)), std::log(9.0), 1e-12);
  EXPECT_NEAR(LogOdds(std::log(0.01)), -std::log(99.0), 1e-12);
  EXPECT_NEAR(LogOdds(LogSigmoid(8)), 8, 1e-9);
  EXPECT_EQ(LogOdds(0), LogOdds(kSureLogProb));  // no odds beyond what float32 tells
  EXPECT_EQ(LogOdds(-1e6), -20);
}

TEST(RlLintOdds, ATemperatureIsAStraightLine) {
  const auto owned = Draw({.sampled_at = 0.7, .rollout_at = 0.7, .noise = 0}, 20, 50, 3);
  std::vector<OddsSums> rows(20);
  std::vector<const OddsSums*> views;
  RlRow row;
  std::vector<double> gaps;
  const RlBatch batch = owned.View();
  for (size_t r = 0; r < rows.size(); ++r) {
    ASSERT_TRUE(row.Load(batch, static_cast<int64_t>(r)).has_value());
    rows[r].Add(row, &gaps);
    views.push_back(&rows[r]);
  }
  const OddsGap gap = SumOdds(views);
  // l_train = 0.7 l_rollout: the gap is -0.3 l_rollout, its mean 0.85 l_rollout.
  EXPECT_NEAR(gap.slope, -0.3 / 0.85, 1e-6);
  EXPECT_NEAR(gap.explained, 1, 1e-6);
  EXPECT_NEAR(gap.level, 1, 1e-6);
  EXPECT_NEAR(gap.noise, 0, 1e-4);
  EXPECT_LT(gap.log_likelihood, 0);
}

TEST(RlLint, TellsWhichSideTheTokensWereDrawnFrom) {
  for (const double at : {0.6, 0.75, 1.3, 1.6}) {
    for (const double noise : {0.001, 0.05, 0.3}) {
      const World processed = {.sampled_at = at, .rollout_at = at, .noise = noise};
      const World trainer = {.train_at = at, .noise = noise};
      const World raw = {.sampled_at = at, .train_at = at, .noise = noise};
      EXPECT_EQ(Named(Draw(processed, 100, 80, 5)), "temperature") << at << " " << noise;
      EXPECT_EQ(Named(Draw(trainer, 100, 80, 6)), "temperature") << at << " " << noise;
      EXPECT_EQ(Named(Draw(raw, 100, 80, 7)), "raw_vs_processed") << at << " " << noise;
      const World clean = {.sampled_at = at, .rollout_at = at, .train_at = at, .noise = noise};
      EXPECT_EQ(Named(Draw(clean, 100, 80, 8)), "none") << at << " " << noise;
    }
  }
}

// The line of the likelihood ratio promises at most one error in a hundred.
TEST(RlLint, FewTokensAreUnsureRatherThanWrong) {
  int unsure = 0, wrong = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const bool raw = seed % 2 == 0;
    const World world = {.sampled_at = 0.8,
                         .rollout_at = raw ? 1 : 0.8,
                         .train_at = raw ? 0.8 : 1,
                         .noise = seed % 3 == 0 ? 0.3 : 0.02};
    const RlFinding finding = Found(Draw(world, 8, 25, seed));
    const RlFault truth = raw ? RlFault::kRawVsProcessed : RlFault::kTemperature;
    if (finding.fault == RlFault::kUnsure) {
      ++unsure;
      EXPECT_TRUE(finding.MayBe(truth)) << finding.message;
      EXPECT_FALSE(finding.MayBe(RlFault::kNone));
      EXPECT_NE(finding.message.find(RlFaultName(truth)), std::string::npos) << finding.message;
    } else {
      wrong += finding.fault != RlFault::kNone && finding.fault != truth;
      EXPECT_TRUE(finding.candidates.empty());
    }
  }
  EXPECT_GT(unsure, 100);
  EXPECT_LE(wrong, 6);
}

TEST(RlLint, NoiseInLogitsIsNoTemperature) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const World world = {.noise = 0.01 + 0.05 * static_cast<double>(seed % 12), .spread = 4};
    EXPECT_EQ(Named(Draw(world, 40, 40, seed)), "none") << world.noise << " " << seed;
    EXPECT_EQ(Named(Draw(world, 5, 20, seed)), "none") << world.noise << " " << seed;
  }
}

// With top-p the likelier of two tokens is certain where it has the mass alone.
TEST(RlLint, ACertaintyOnOneSideIsACut) {
  for (const bool in_rollout : {true, false}) {
    auto owned = Draw({}, 40, 40, 11);
    for (size_t i = 0; i < owned.train.size(); ++i) {
      double& cut = in_rollout ? owned.rollout[i] : owned.train[i];
      if (cut > std::log(0.8)) cut = 0;
    }
    // The tokens that top-p would not have drawn.
    for (size_t i = 0; i < owned.train.size(); ++i) {
      owned.mask.push_back(std::min(owned.train[i], owned.rollout[i]) > std::log(0.2));
    }
    EXPECT_EQ(Named(owned), in_rollout ? "kept_mass" : "raw_vs_processed");
  }
}

TEST(RlLint, JsonListsCandidatesOfAnUnsureAnswerAlone) {
  const World world = {.sampled_at = 0.8, .rollout_at = 0.8};
  const auto unsure = LintRl(Draw(world, 8, 25, 1).View());
  ASSERT_TRUE(unsure.has_value());
  ASSERT_EQ(unsure->fault(), RlFault::kUnsure) << LintJson(*unsure);
  const std::string json = LintJson(*unsure);
  const size_t at = json.find("\"candidates\"");
  ASSERT_NE(at, std::string::npos) << json;
  EXPECT_NE(json.find("\"temperature\"", at), std::string::npos) << json;
  EXPECT_NE(json.find("\"raw_vs_processed\"", at), std::string::npos) << json;
  const auto sure = LintRl(Draw(world, 200, 100, 1).View());
  ASSERT_TRUE(sure.has_value());
  ASSERT_EQ(sure->fault(), RlFault::kTemperature) << LintJson(*sure);
  EXPECT_EQ(LintJson(*sure).find("candidates"), std::string::npos);
}

}  // namespace
}  // namespace kcc
