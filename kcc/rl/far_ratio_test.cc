// Products of ratios far outside double's range: every metric of w against its definition in logs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "kcc/rl/correction.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/rl_metrics.h"
#include "kcc/rl/rl_version1.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Sequences of given log-ratios, packed.
struct Packed {
  std::vector<double> train, rollout;
  std::vector<int64_t> offsets = {0};

  void AddRow(const std::vector<double>& d) {
    for (const double x : d) {
      train.push_back(-0.5 + std::min(x, 0.0));
      rollout.push_back(-0.5 - std::max(x, 0.0));
    }
    offsets.push_back(static_cast<int64_t>(train.size()));
  }
  RlBatch View() const {
    RlBatch batch;
    batch.rows = static_cast<int64_t>(offsets.size()) - 1;
    batch.offsets = offsets;
    batch.train = {train.data(), RlType::kF64, 0};
    batch.rollout = {rollout.data(), RlType::kF64, 0};
    return batch;
  }
  // log W of each row, as the arrays have it.
  std::vector<long double> LogRatios() const {
    std::vector<long double> out;
    for (size_t r = 0; r + 1 < offsets.size(); ++r) {
      long double sum = 0;
      for (auto i = static_cast<size_t>(offsets[r]); i < static_cast<size_t>(offsets[r + 1]); ++i) {
        sum += static_cast<long double>(train[i]) - rollout[i];
      }
      out.push_back(sum);
    }
    return out;
  }
};

Packed Noisy(int64_t rows, int64_t length, double mean, double noise) {
  std::mt19937_64 random(17);
  std::normal_distribution<double> normal;
  Packed out;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> d(static_cast<size_t>(length));
    for (double& x : d) x = mean + noise * normal(random);
    out.AddRow(d);
  }
  return out;
}

// Of w = e^log_ratio, scaled by the largest.
struct LogMoments {
  long double log_mean = 0, ess = 0, relative_sd = 0;

  explicit LogMoments(const std::vector<long double>& log_ratios) {
    const long double top = *std::max_element(log_ratios.begin(), log_ratios.end());
    const auto n = static_cast<long double>(log_ratios.size());
    long double sum = 0, square = 0, spread = 0;
    for (const long double x : log_ratios) sum += expl(x - top);
    for (const long double x : log_ratios) {
      const long double w = expl(x - top);
      square += w * w;
      spread += (w - sum / n) * (w - sum / n);
    }
    log_mean = top + logl(sum / n);
    ess = sum * sum / (n * square);
    relative_sd = sqrtl(spread / n) / (sum / n);
  }
};

void ExpectMoments(const RlLevelMetrics& got, const LogMoments& want) {
  EXPECT_GT(got.ess, 0);
  EXPECT_LE(got.ess, 1);
  EXPECT_NEAR(got.ess, static_cast<double>(want.ess), 1e-9 * static_cast<double>(want.ess));
  const auto mean = static_cast<double>(expl(want.log_mean));
  if (std::isfinite(mean) && mean > 0) {
    EXPECT_NEAR(got.mean_w, mean, 1e-9 * mean);
    const auto sd = static_cast<double>(expl(want.log_mean) * want.relative_sd);
    EXPECT_NEAR(got.sd_w, sd, 1e-9 * sd + 1e-13 * mean);
  }
}

TEST(RlFarRatios, LongSequencesWithASmallDriftHaveAnEffectiveSampleSize) {
  for (const double mean : {-5e-4, -0.0022, -0.012, 0.03, 0.2}) {
    const Packed packed = Noisy(64, 16384, mean, 0.03);
    const auto metrics = DiagnoseRl(packed.View());
    ASSERT_TRUE(metrics.has_value()) << metrics.error().message();
    const LogMoments want(packed.LogRatios());
    SCOPED_TRACE(mean);
    ExpectMoments(metrics->at(RlLevel::kSequence), want);
    ExpectMoments(metrics->at(RlLevel::kSegment), want);
    const RlClause clause = {"sequence.ess", 0.3, true};
    const auto judged = JudgeRl(*metrics, std::span(&clause, 1));
    ASSERT_TRUE(judged.has_value());
    EXPECT_EQ((*judged)[0].verdict, RlVerdict::kViolated) << (*judged)[0].value;
  }
}

TEST(RlFarRatios, TokensBeyondTheRootOfTheLargestDoubleCount) {
  for (const double d : {354.0, 355.0, 400.0, 699.0, -40.0, -355.0, -699.0}) {
    Packed packed;
    packed.AddRow({d});
    packed.AddRow({d - 0.25, d - 0.5});
    const auto metrics = DiagnoseRl(packed.View());
    ASSERT_TRUE(metrics.has_value()) << metrics.error().message();
    SCOPED_TRACE(d);
    ExpectMoments(metrics->at(RlLevel::kToken), LogMoments({d, d - 0.25L, d - 0.5L}));
  }
}

TEST(RlFarRatios, MetricsBeyondDoubleAreInfiniteOrZeroAndDecideTheirLimits) {
  Packed packed;
  packed.AddRow(std::vector<double>(10, 600.0));
  packed.AddRow(std::vector<double>(10, -600.0));
  const auto metrics = DiagnoseRl(packed.View());
  ASSERT_TRUE(metrics.has_value());
  const RlLevelMetrics& sequence = metrics->at(RlLevel::kSequence);
  EXPECT_EQ(sequence.mean_w, kInf);
  EXPECT_EQ(sequence.sd_w, kInf);
  EXPECT_EQ(sequence.chi2, kInf);
  EXPECT_EQ(sequence.k3, kInf);
  EXPECT_EQ(sequence.ess, 0.5);
  EXPECT_EQ(sequence.tv, 0.5);
  // Of tokens the mean is a double, though no sum of squares is.
  const RlLevelMetrics& token = metrics->at(RlLevel::kToken);
  const double w = std::exp(600.0);
  EXPECT_NEAR(token.mean_w, w / 2, 1e-12 * w);
  EXPECT_NEAR(token.sd_w, w / 2, 1e-12 * w);
  EXPECT_NEAR(token.k3, w / 2, 1e-12 * w);
  EXPECT_NEAR(token.k3_reverse, 599 * w / 2, 599 * 1e-12 * w);
  EXPECT_NEAR(token.tv_abs, w / 4, 1e-12 * w);
  EXPECT_NEAR(token.ess, 0.5, 1e-15);
}

// A mean of numbers whose sum no double holds.
TEST(RlFarRatios, SumsBeyondDoubleHaveAMean) {
  Packed packed;
  packed.AddRow(std::vector<double>(16384, 699.5));
  RlBatch batch = packed.View();
  const double advantage = -100;
  batch.advantages = {&advantage, RlType::kF64, 1};
  const auto metrics = DiagnoseRl(batch);
  ASSERT_TRUE(metrics.has_value());
  const double w = std::exp(699.5);
  EXPECT_NEAR(metrics->at(RlLevel::kToken).mean_w / w, 1, 1e-12);
  EXPECT_NEAR(metrics->at(RlLevel::kToken).k3_reverse / w, 698.5, 1e-9);
  EXPECT_NEAR(metrics->skew.negative / w, 100, 1e-9);
  EXPECT_NEAR(metrics->skew.bias_bound / w, 100, 1e-9);
  EXPECT_EQ(metrics->skew.positive, 0);

  Packed near_the_end;  // |w - 1| has no double, half of it has
  near_the_end.AddRow({699.0, 11.0});
  const auto half = DiagnoseRl(near_the_end.View());
  ASSERT_TRUE(half.has_value());
  EXPECT_NEAR(half->at(RlLevel::kSequence).tv_abs / (std::exp(709.0) / 2), std::exp(1.0), 1e-11);
}

TEST(RlFarRatios, ASampleOfEqualRatiosHasNoSpread) {
  for (const double d : {0.5, 5.0, -5.0, 300.0, -300.0, 650.0}) {
    Packed packed;
    for (int r = 0; r < 7; ++r) packed.AddRow({d, d});
    const auto metrics = DiagnoseRl(packed.View());
    ASSERT_TRUE(metrics.has_value());
    EXPECT_EQ(metrics->at(RlLevel::kSequence).sd_w, 0) << d;
    EXPECT_EQ(metrics->at(RlLevel::kSequence).ess, 1) << d;
    EXPECT_EQ(metrics->at(RlLevel::kToken).ess, 1) << d;
  }
}

RlCorrectionMetrics Corrected(const Packed& packed, const RlCorrection& correction,
                              std::vector<double>* weights) {
  weights->assign(packed.train.size(), -1);
  RlCorrectOutput output;
  output.weights_double = *weights;
  const auto metrics = CorrectRl(packed.View(), correction, output);
  EXPECT_TRUE(metrics.has_value());
  return metrics.has_value() ? (*metrics)[0] : RlCorrectionMetrics();
}

TEST(RlFarRatios, FullSequenceWeightsAreUnbiasedAtAnySize) {
  for (const double d : {0.0, 40.0, -40.0, 100.0, -100.0}) {
    Packed packed;
    packed.AddRow(std::vector<double>(20, d));
    packed.AddRow(std::vector<double>(20, d - 0.01));
    RlCorrection full;
    full.weight = {RlWeightMode::kFull, RlLevel::kSequence, 0, 2, false};
    std::vector<double> weights;
    const RlCorrectionMetrics f = Corrected(packed, full, &weights);
    EXPECT_EQ(f.bias_sequence, 0) << d;
    const double ratio = std::exp(-0.2);
    EXPECT_NEAR(f.ess, (1 + ratio) * (1 + ratio) / 2 / (1 + ratio * ratio), 1e-12) << d;

    full.weight.batch_normalize = true;
    const RlCorrectionMetrics normal = Corrected(packed, full, &weights);
    if (d < 0) {  // a mean weight below 1e-8 is left alone
      EXPECT_EQ(normal.normalizer, 1);
    } else {
      EXPECT_NEAR(normal.mean_weight_kept, 1, 1e-12) << d;
      EXPECT_NEAR(weights[0], 2 / (1 + ratio), 1e-12) << d;
      EXPECT_NEAR(weights[20], 2 * ratio / (1 + ratio), 1e-12) << d;
    }
    EXPECT_NEAR(normal.ess, f.ess, 1e-12) << d;
  }
}

TEST(RlFarRatios, TruncatedAndMaskedWeightsStayInTheirBand) {
  Packed packed;
  packed.AddRow(std::vector<double>(10, 600.0));
  packed.AddRow(std::vector<double>(10, -600.0));
  packed.AddRow(std::vector<double>(10, 0.01));
  RlCorrection correction;
  correction.weight = {RlWeightMode::kTruncate, RlLevel::kSequence, 0, 2, false};
  std::vector<double> weights;
  RlCorrectionMetrics f = Corrected(packed, correction, &weights);
  EXPECT_EQ(weights[0], 2);
  EXPECT_EQ(weights[10], 0);  // e^-6000
  EXPECT_NEAR(weights[20], std::exp(0.1), 1e-14);
  EXPECT_EQ(f.units_outside, 1);
  EXPECT_NEAR(f.mean_weight, (2 + std::exp(0.1)) / 3, 1e-14);
  EXPECT_EQ(f.bias_sequence, kInf);
  correction.weight = {RlWeightMode::kMask, RlLevel::kSegment, 0.5, 2, false};
  f = Corrected(packed, correction, &weights);
  EXPECT_EQ(weights[0], 0);
  EXPECT_EQ(weights[10], 0);
  EXPECT_EQ(f.units_outside, 2);
  EXPECT_NEAR(f.ess, 1.0 / 3, 1e-14);
  correction.weight = {RlWeightMode::kClip, RlLevel::kToken, 0.5, 2, false};
  f = Corrected(packed, correction, &weights);
  EXPECT_EQ(weights[0], 2);
  EXPECT_EQ(weights[10], 0.5);
  EXPECT_NEAR(f.bias_token / std::exp(600.0), 1.0 / 3, 1e-12);
}

// One likely token keeps a row's mean w near 1; its geometric mean is far all the same.
TEST(RlFarRatios, SquaresOfGeometricWeightsDoNotVanish) {
  Packed packed;
  packed.AddRow({6.0, -600.0, -600.0});
  packed.AddRow({6.0, -603.0, -603.0});
  RlCorrection correction;
  correction.weight = {RlWeightMode::kFull, RlLevel::kGeometric, 0, 2, false};
  std::vector<double> weights;
  const double ratio = std::exp(-2.0);
  EXPECT_NEAR(Corrected(packed, correction, &weights).ess,
              (1 + ratio) * (1 + ratio) / 2 / (1 + ratio * ratio), 1e-12);
}

std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Written before far units were told apart (version 1), as kcc rl diagnose -o wrote them:
// near: d within 1; mid: -3 … 2.5; low: -40 … -20; high: up to 400.
TEST(RlFarRatios, OldSummariesSayNothingWhereTheyLostTheRatios) {
  struct Case {
    const char* name;
    double ess;  // of sequences; NaN: lost
    RlVerdict verdict;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Case& c : {Case{"near", 0.98950, RlVerdict::kSatisfied},
                        {"mid", 0.39776, RlVerdict::kSatisfied},
                        {"low", nan, RlVerdict::kInconclusive},
                        {"high", nan, RlVerdict::kInconclusive}}) {
    SCOPED_TRACE(c.name);
    const std::string bytes =
        FileBytes(std::string("tests/data/rl/summary_v1_") + c.name + ".kccrl");
    ASSERT_TRUE(bytes.starts_with("kccrl1\n"));
    auto summary = RlSummary::Parse(bytes);
    ASSERT_TRUE(summary.has_value()) << summary.error().message();
    const auto metrics = summary->Metrics();
    ASSERT_TRUE(metrics.has_value()) << metrics.error().message();
    const double ess = metrics->at(RlLevel::kSequence).ess;
    EXPECT_TRUE(std::isnan(c.ess) ? std::isnan(ess) : std::fabs(ess - c.ess) < 1e-5) << ess;
    const RlClause clause = {"sequence.ess", 0.3, true};
    EXPECT_EQ((*JudgeRl(*metrics, std::span(&clause, 1)))[0].verdict, c.verdict);
    const auto again = RlSummary::Parse(summary->Serialize());
    ASSERT_TRUE(again.has_value()) << again.error().message();
    EXPECT_EQ(rl_version1::FiguresJson(*again->Metrics()), rl_version1::FiguresJson(*metrics));
    // What was lost stays lost in company.
    Packed packed;
    packed.AddRow({2.0});
    ASSERT_TRUE(summary->Add(packed.View()).has_value());
    const auto merged = summary->Metrics();
    ASSERT_TRUE(merged.has_value()) << merged.error().message();
    EXPECT_EQ(merged->at(RlLevel::kSequence).units, metrics->at(RlLevel::kSequence).units + 1);
    if (std::string_view(c.name) == "high") {
      EXPECT_TRUE(std::isnan(merged->at(RlLevel::kSequence).ess));
    }
  }
}

TEST(RlFarRatios, AnEffectiveSampleSizeThatNoRowsHaveIsAnErrorWithItsPlace) {
  Packed packed;
  packed.AddRow({0.25});
  RlSummary summary;
  ASSERT_TRUE(summary.Add(packed.View()).has_value());
  const std::string bytes = summary.Serialize();
  int refused = 0;
  for (size_t at = 7; at < bytes.size(); ++at) {
    for (const int flip : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string forged = bytes;
      forged[at] = static_cast<char>(forged[at] ^ flip);
      const auto read = RlSummary::Parse(forged);
      if (!read.has_value()) continue;
      const auto metrics = read->Metrics();
      if (metrics.has_value()) {
        for (const RlLevelMetrics& level : metrics->level) {
          EXPECT_FALSE(level.ess <= 0 || level.ess > 1) << at << ": " << level.ess;
        }
        continue;
      }
      ++refused;
      EXPECT_EQ(metrics.error().code(), ErrorCode::kBrokenEvidence);
      EXPECT_NE(metrics.error().message().find(".ess of everything is "), std::string::npos)
          << metrics.error().message();
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_FALSE(RlSummary::Parse("kccrl3\n").has_value());
}

}  // namespace
}  // namespace kcc
