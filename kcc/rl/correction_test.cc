#include "kcc/rl/correction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kcc/rl/correction_json.h"
#include "kcc/rl/rl_test_data.h"
#include "kcc/rl/rl_version1.h"

namespace kcc {
namespace {

using testing::NoisyBatch;
using testing::OwnedBatch;

// Two rows of d: {ln 2, 0, -ln 4} and {0.1, (masked), 0.1}.
OwnedBatch SmallBatch() {
  OwnedBatch batch;
  batch.rows = 2;
  batch.columns = 3;
  const double d[] = {std::log(2.0), 0, -std::log(4.0), 0.1, 5.0, 0.1};
  for (const double x : d) {
    batch.rollout.push_back(-8);
    batch.train.push_back(-8 + x);
  }
  batch.mask = {1, 1, 1, 1, 0, 1};
  return batch;
}

struct Outcome {
  std::vector<double> weights;
  std::vector<uint8_t> mask;
  std::vector<RlCorrectionMetrics> metrics;
};

Outcome Correct(const OwnedBatch& batch, const RlCorrection& correction, int threads = 1) {
  Outcome out;
  out.weights.resize(batch.train.size());
  out.mask.resize(batch.train.size());
  RlCorrectOutput output;
  output.weights_double = out.weights;
  output.mask = out.mask;
  auto metrics = CorrectRl(batch.View(), correction, output, threads);
  EXPECT_TRUE(metrics.has_value()) << metrics.error().message();
  if (metrics.has_value()) out.metrics = *metrics;
  return out;
}

RlCorrection Weight(RlWeightMode mode, RlLevel level, double low, double high) {
  RlCorrection correction;
  correction.weight = {mode, level, low, high, false};
  return correction;
}

TEST(RlCorrect, WeightsByModeAndLevel) {
  const double s = 0.2;  // of the second row
  struct Case {
    RlCorrection correction;
    std::vector<double> want;
  };
  const Case cases[] = {
      {Weight(RlWeightMode::kOff, RlLevel::kToken, 0, 2), {1, 1, 1, 1, 0, 1}},
      {Weight(RlWeightMode::kFull, RlLevel::kToken, 0, 2),
       {2, 1, 0.25, std::exp(0.1), 0, std::exp(0.1)}},
      {Weight(RlWeightMode::kTruncate, RlLevel::kToken, 0, 1.5),
       {1.5, 1, 0.25, std::exp(0.1), 0, std::exp(0.1)}},
      {Weight(RlWeightMode::kClip, RlLevel::kToken, 0.5, 1.05), {1.05, 1, 0.5, 1.05, 0, 1.05}},
      {Weight(RlWeightMode::kMask, RlLevel::kToken, 0.5, 1.05), {0, 1, 0, 0, 0, 0}},
      {Weight(RlWeightMode::kTruncate, RlLevel::kSequence, 0, 1.1), {0.5, 0.5, 0.5, 1.1, 0, 1.1}},
      {Weight(RlWeightMode::kTruncate, RlLevel::kGeometric, 0, 2),
       {std::cbrt(0.5), std::cbrt(0.5), std::cbrt(0.5), std::exp(s / 2), 0, std::exp(s / 2)}},
      {Weight(RlWeightMode::kTruncate, RlLevel::kSegment, 0, 2),
       {0.5, 0.5, 0.5, std::exp(0.1), 0, std::exp(0.1)}},
  };
  for (const Case& c : cases) {
    const Outcome got = Correct(SmallBatch(), c.correction);
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(got.weights[i], c.want[i], 1e-14) << DescribeCorrection(c.correction) << " " << i;
    }
    EXPECT_EQ(got.mask, (std::vector<uint8_t>{1, 1, 1, 1, 0, 1}));
  }
}

TEST(RlCorrect, RejectionByStatisticAndAggregate) {
  struct Case {
    RlRejectRule rule;
    std::vector<uint8_t> want;
  };
  using S = RlStatistic;
  using A = RlAggregate;
  const Case cases[] = {
      {{S::kRatio, A::kTokenwise, 0.5, 1.5}, {0, 1, 0, 1, 0, 1}},
      {{S::kK1, A::kTokenwise, 0.49, 1.5}, {1, 1, 0, 1, 0, 1}},  // bounds 1/w: 2 passes as 0.5
      {{S::kK2, A::kTokenwise, 0, 0.3}, {1, 1, 0, 1, 0, 1}},
      {{S::kK3, A::kTokenwise, 0, 0.31}, {1, 1, 0, 1, 0, 1}},
      {{S::kRatio, A::kSequenceSum, 0.9, 2.0}, {0, 0, 0, 1, 0, 1}},
      {{S::kRatio, A::kSequenceMean, 0.7, 1.09}, {1, 1, 1, 0, 0, 0}},
      {{S::kK3, A::kSequenceSum, 0, 0.1}, {0, 0, 0, 1, 0, 1}},
      {{S::kK2, A::kSequenceMax, 0, 0.01}, {0, 0, 0, 1, 0, 1}},
      {{S::kRatio, A::kSequenceMax, 0.2, 3}, {1, 1, 1, 1, 0, 1}},
      {{S::kRatio, A::kSegmentSum, 0.2, 1.15}, {1, 1, 1, 1, 0, 1}},
  };
  for (const Case& c : cases) {
    RlCorrection correction;
    correction.reject = {c.rule};
    EXPECT_EQ(Correct(SmallBatch(), correction).mask, c.want) << DescribeCorrection(correction);
  }
  RlCorrection veto;
  veto.veto = RlVeto{0.3, 0};
  EXPECT_EQ(Correct(SmallBatch(), veto).mask, (std::vector<uint8_t>{0, 0, 0, 1, 0, 1}));
}

TEST(RlCorrect, MetricsSayWhatTheWeightsDo) {
  RlCorrection correction = Weight(RlWeightMode::kTruncate, RlLevel::kToken, 0, 1.5);
  correction.reject = {{RlStatistic::kRatio, RlAggregate::kTokenwise, 0.5, 3}};
  const RlCorrectionMetrics f = Correct(SmallBatch(), correction).metrics[0];
  const double e = std::exp(0.1);
  EXPECT_EQ(f.tokens, 5);
  EXPECT_EQ(f.tokens_kept, 4);
  EXPECT_EQ(f.rows, 2);
  EXPECT_EQ(f.rows_kept, 2);
  EXPECT_EQ(f.units_outside, 1);
  EXPECT_NEAR(f.mean_weight, (1.5 + 1 + 0.25 + 2 * e) / 5, 1e-14);
  EXPECT_NEAR(f.mean_weight_kept, (1.5 + 1 + 2 * e) / 4, 1e-14);
  EXPECT_NEAR(f.variance, (2.25 + 1 + 2 * e * e) / 5, 1e-14);
  EXPECT_NEAR(f.bias_token, (0.5 + 0 + 0.25 + 0 + 0) / 5, 1e-14);
  const double w = std::exp(0.2);
  EXPECT_NEAR(f.bias_sequence, (1.0 + 0.5 + 0.5 + 2 * (w - e)) / 5, 1e-14);
}

TEST(RlCorrect, NormalisedWeightsHaveMeanOne) {
  for (const RlLevel level : {RlLevel::kToken, RlLevel::kSegment}) {
    RlCorrection correction = Weight(RlWeightMode::kTruncate, level, 0, 1.2);
    correction.weight.batch_normalize = true;
    const auto metrics = Correct(NoisyBatch(20, 30, 0.3, 4), correction).metrics;
    EXPECT_NEAR(metrics[0].mean_weight_kept, 1, 1e-12);
    EXPECT_NE(metrics[0].normalizer, 1);
  }
}

TEST(RlCorrect, ThreadsChangeNothing) {
  RlCorrection correction = Weight(RlWeightMode::kClip, RlLevel::kToken, 0.8, 1.2);
  correction.weight.batch_normalize = true;
  correction.reject = {{RlStatistic::kK3, RlAggregate::kSequenceMean, 0, 0.05}};
  const OwnedBatch batch = NoisyBatch(50, 40, 0.3, 6);
  const Outcome one = Correct(batch, correction, 1);
  const Outcome four = Correct(batch, correction, 4);
  EXPECT_EQ(one.weights, four.weights);
  EXPECT_EQ(one.mask, four.mask);
  EXPECT_EQ(rl_version1::CorrectionFiguresJson(one.metrics),
            rl_version1::CorrectionFiguresJson(four.metrics));
  EXPECT_EQ(one.metrics.size(), 4u);  // everything and three slices
}

TEST(RlCorrect, EverythingRejectedIsSaid) {
  RlCorrection correction;
  correction.reject = {{RlStatistic::kRatio, RlAggregate::kTokenwise, 3, 4}};
  const Outcome got = Correct(SmallBatch(), correction);
  EXPECT_TRUE(got.metrics[0].everything_rejected());
  EXPECT_EQ(got.metrics[0].ess, 0);
}

std::string CorrectionJson(const RlCorrection& correction) {
  JsonWriter json(JsonWriter::Style::kCompact);
  WriteCorrection(correction, kBatchNormalizeKey, &json);
  return json.Take();
}

TEST(RlCorrection, JsonRoundTrips) {
  RlCorrection correction = PaperCorrection(0.2);
  correction.reject = {{RlStatistic::kK1, RlAggregate::kSequenceMean, 0.999, 1.001},
                       {RlStatistic::kK3, RlAggregate::kSequenceMax, 0, 0.5}};
  correction.veto = RlVeto{1e-4, 100};
  const auto read = ParseCorrection(CorrectionJson(correction));
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(*read, correction);
}

TEST(RlCorrection, BothSpellingsOfBatchNormalizeAreRead) {
  for (const std::string key : {"batchNormalize", "batch_normalize"}) {
    const auto read = ParseCorrection(R"({"weight": {"mode": "full", ")" + key + R"(": true}})");
    ASSERT_TRUE(read.has_value()) << read.error().message();
    EXPECT_TRUE(read->weight.batch_normalize);
    EXPECT_NE(CorrectionJson(*read).find("\"batchNormalize\":true"), std::string::npos);
  }
}

TEST(RlCorrection, MistakesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"weigth": {}})", "did you mean \"weight\""},
      {R"({"weight": {"mode": "truncat"}})", "truncate"},
      {R"({"weight": {"mode": "clip", "low": 2, "high": 1}})", "low <= high"},
      {R"({"reject": {}})", "list"},
      {R"({"veto": {"low": "x"}})", "number"},
      {"[]", "object"},
      {"{", "JSON"},
  };
  for (const auto& [text, says] : cases) {
    const auto read = ParseCorrection(text);
    ASSERT_FALSE(read.has_value()) << text;
    if (std::string(says) != "JSON") {
      EXPECT_NE(read.error().message().find(says), std::string::npos) << read.error().message();
    }
  }
}

TEST(RlCorrection, OutputsOfTheWrongSizeAreRefused) {
  const OwnedBatch batch = SmallBatch();
  std::vector<float> weights(5);
  RlCorrectOutput output;
  output.weights = weights;
  EXPECT_FALSE(CorrectRl(batch.View(), {}, output).has_value());
}

}  // namespace
}  // namespace kcc
