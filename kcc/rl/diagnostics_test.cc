#include "kcc/rl/diagnostics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kcc/rl/correction.h"
#include "kcc/rl/dialect.h"
#include "kcc/rl/rl_test_data.h"
#include "kcc/rl/rl_version1.h"

namespace kcc {
namespace {

using testing::NoisyBatch;
using testing::OwnedBatch;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// The definitions, in long double, token by token.
struct Naive {
  long double n = 0, k1 = 0, k3 = 0, e = 0, square = 0, below = 0;
  void Add(double d) {
    const long double excess = expm1l(d);
    n += 1;
    k1 -= d;
    k3 += excess - d;
    e += excess;
    square += excess * excess;
    below += excess < 0 ? -excess : 0;
  }
};

void ExpectLevel(const RlLevelMetrics& got, const Naive& want) {
  const auto near = [](double value, long double exact) {
    EXPECT_NEAR(value, static_cast<double>(exact),
                1e-9 * static_cast<double>(fabsl(exact)) + 1e-17);
  };
  ASSERT_EQ(got.units, static_cast<int64_t>(want.n));
  near(got.k1, want.k1 / want.n);
  near(got.k3, want.k3 / want.n);
  near(got.tv, want.below / want.n);
  near(got.mean_w, 1 + want.e / want.n);
  near(got.chi2, want.square / want.n);
  const long double mean = want.e / want.n;
  near(got.sd_w, sqrtl(want.square / want.n - mean * mean));
  near(got.ess, (1 + mean) * (1 + mean) / (1 + 2 * mean + want.square / want.n));
}

TEST(RlDiagnostics, EveryLevelFollowsItsDefinition) {
  for (const double noise : {1e-5, 1e-2, 0.3}) {
    const OwnedBatch batch = NoisyBatch(30, 50, noise, 7);
    const auto metrics = DiagnoseRl(batch.View());
    ASSERT_TRUE(metrics.has_value());
    Naive token, sequence, geometric, segment;
    for (int64_t r = 0; r < batch.rows; ++r) {
      double sum = 0, run = 0, count = 0;
      bool in_run = false;
      for (int64_t t = 0; t <= batch.columns; ++t) {
        const auto at = static_cast<size_t>(r * batch.columns + t);
        const bool valid = t < batch.columns && batch.mask[at] != 0;
        if (valid) {
          const double d = batch.train[at] - batch.rollout[at];
          token.Add(d);
          sum += d;
          run += d;
          count += 1;
        } else if (in_run) {
          segment.Add(run);
          run = 0;
        }
        in_run = valid;
      }
      if (count == 0) continue;
      sequence.Add(sum);
      geometric.Add(sum / count);
    }
    ExpectLevel(metrics->at(RlLevel::kToken), token);
    ExpectLevel(metrics->at(RlLevel::kSequence), sequence);
    ExpectLevel(metrics->at(RlLevel::kGeometric), geometric);
    ExpectLevel(metrics->at(RlLevel::kSegment), segment);
  }
}

TEST(RlDiagnostics, BytesDoNotDependOnTheSplitPaddingOrThreads) {
  OwnedBatch batch = NoisyBatch(41, 33, 0.05, 11);
  batch.old = batch.rollout;
  for (double& x : batch.old) x -= 1e-3;
  RlSummary whole;
  ASSERT_TRUE(whole.Add(batch.View()).has_value());
  const std::string want = whole.Serialize();

  RlSummary threads;
  ASSERT_TRUE(threads.Add(batch.View(), 5).has_value());
  EXPECT_EQ(threads.Serialize(), want);

  RlSummary parts[3];
  const int64_t cuts[] = {0, 7, 30, 41};
  for (size_t p = 0; p < 3; ++p) {
    const OwnedBatch part = batch.Part(cuts[p], cuts[p + 1]);
    ASSERT_TRUE(parts[p].Add(part.View()).has_value());
  }
  RlSummary merged = parts[2];
  merged.Merge(parts[0]);
  merged.Merge(parts[1]);
  EXPECT_EQ(merged.Serialize(), want);

  OwnedBatch wide = batch;  // three columns of padding on the left, two on the right
  wide.columns += 5;
  for (auto* array : {&wide.train, &wide.rollout, &wide.old}) array->clear();
  wide.mask.clear();
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (int64_t t = -3; t < batch.columns + 2; ++t) {
      const bool inside = t >= 0 && t < batch.columns;
      const auto at = static_cast<size_t>(r * batch.columns + (inside ? t : 0));
      wide.train.push_back(inside ? batch.train[at] : kNaN);
      wide.rollout.push_back(inside ? batch.rollout[at] : 5.0);
      wide.old.push_back(inside ? batch.old[at] : kNaN);
      wide.mask.push_back(inside ? batch.mask[at] : 0);
    }
  }
  RlSummary padded;
  ASSERT_TRUE(padded.Add(wide.View()).has_value());
  EXPECT_EQ(padded.Serialize(), want);

  const auto read = RlSummary::Parse(want);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->Serialize(), want);
  EXPECT_EQ(rl_version1::FiguresJson(*read->Metrics()), rl_version1::FiguresJson(*whole.Metrics()));
}

TEST(RlDiagnostics, PackedRowsAreThePaddedOnes) {
  const OwnedBatch batch = NoisyBatch(9, 21, 0.1, 3);
  std::vector<float> train, rollout;
  std::vector<int64_t> offsets = {0};
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (int64_t t = 0; t < batch.columns; ++t) {
      const auto at = static_cast<size_t>(r * batch.columns + t);
      if (batch.mask[at] == 0) continue;
      train.push_back(static_cast<float>(batch.train[at]));
      rollout.push_back(static_cast<float>(batch.rollout[at]));
    }
    offsets.push_back(static_cast<int64_t>(train.size()));
  }
  RlBatch packed;
  packed.rows = batch.rows;
  packed.offsets = offsets;
  packed.train = {train.data(), RlType::kF32, 0};
  packed.rollout = {rollout.data(), RlType::kF32, 0};
  const auto metrics = DiagnoseRl(packed);
  ASSERT_TRUE(metrics.has_value());
  EXPECT_EQ(metrics->tokens, static_cast<int64_t>(train.size()));
  const auto padded = DiagnoseRl(batch.View());
  EXPECT_NEAR(metrics->at(RlLevel::kToken).k3, padded->at(RlLevel::kToken).k3, 1e-6);
}

TEST(RlDiagnostics, SmallNoiseIsMeasuredWithinATenthOfAPercent) {
  for (const double noise : {1e-4, 1e-5}) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal(0, noise);
    std::vector<double> train, rollout;
    long double k3 = 0, e = 0, square = 0;
    for (int i = 0; i < 64 * 2048; ++i) {
      rollout.push_back(-1.5);
      train.push_back(-1.5 + normal(random));
      const long double d = static_cast<long double>(train.back()) - rollout.back();
      const long double excess = expm1l(d);
      k3 += excess - d;
      e += excess;
      square += excess * excess;
    }
    RlBatch batch;
    batch.rows = 64;
    batch.columns = 2048;
    batch.train = {train.data(), RlType::kF64, 2048};
    batch.rollout = {rollout.data(), RlType::kF64, 2048};
    const auto metrics = DiagnoseRl(batch);
    ASSERT_TRUE(metrics.has_value());
    const long double n = 64 * 2048;
    const auto exact_k3 = static_cast<double>(k3 / n);
    const auto exact_sd = static_cast<double>(sqrtl(square / n - (e / n) * (e / n)));
    EXPECT_NEAR(metrics->at(RlLevel::kToken).k3, exact_k3, 1e-3 * exact_k3);
    EXPECT_NEAR(metrics->at(RlLevel::kToken).sd_w, exact_sd, 1e-3 * exact_sd);
    EXPECT_NEAR(metrics->at(RlLevel::kToken).k3, noise * noise / 2, 0.02 * noise * noise / 2);
  }
}

TEST(RlDiagnostics, SkewSplitsByTheAdvantagesSign) {
  OwnedBatch batch;
  batch.rows = 2;
  batch.columns = 1;
  batch.rollout = {std::log(0.5), std::log(0.5)};
  batch.train = {std::log(0.6), std::log(0.4)};  // w = 1.2 and 0.8
  batch.advantages = {2.0, -1.0};
  const auto metrics = DiagnoseRl(batch.View());
  ASSERT_TRUE(metrics.has_value());
  EXPECT_NEAR(metrics->skew.positive, -0.2 * 2 / 2, 1e-12);
  EXPECT_NEAR(metrics->skew.negative, -(-0.2) * -1 / 2, 1e-12);
  EXPECT_NEAR(metrics->skew.bias_bound, (0.4 + 0.2) / 2, 1e-12);
  EXPECT_EQ(metrics->skew.tokens_positive, 1);
}

TEST(RlDiagnostics, StalenessAndMismatchAddUpInLogs) {
  OwnedBatch batch = NoisyBatch(12, 30, 0.02, 9);
  batch.old = batch.rollout;
  for (double& x : batch.old) x -= 0.001;
  const auto metrics = DiagnoseRl(batch.View());
  ASSERT_TRUE(metrics.has_value());
  ASSERT_TRUE(metrics->has_old);
  EXPECT_NEAR(metrics->mismatch.k1, 0.001, 1e-12);
  EXPECT_NEAR(metrics->mismatch.k1 + metrics->staleness.k1, metrics->at(RlLevel::kToken).k1, 1e-12);
}

TEST(RlDiagnostics, TokensWithoutAChanceAreCountedAndLeftOut) {
  OwnedBatch batch;
  batch.rows = 1;
  batch.columns = 4;
  batch.rollout = {-1, -1, -kInf, -1};
  batch.train = {-1, -kInf, -1, -1};
  const auto metrics = DiagnoseRl(batch.View());
  ASSERT_TRUE(metrics.has_value());
  EXPECT_EQ(metrics->tokens, 2);
  EXPECT_EQ(metrics->zero_ratio, 1);
  EXPECT_EQ(metrics->infinite_ratio, 1);
  EXPECT_EQ(metrics->at(RlLevel::kToken).k3, 0);
  EXPECT_NEAR(metrics->at(RlLevel::kToken).tv, 1.0 / 3, 1e-15);
}

TEST(RlDiagnostics, BrokenNumbersAreRefusedWithTheirPlace) {
  struct Case {
    double train, rollout;
    const char* says;
  };
  for (const Case& c :
       {Case{kNaN, -1, "train log-prob at row 1, column 2 is nan"}, Case{-1, 0.5, "at most 0"},
        Case{-kInf, -kInf, "neither side"}, Case{kInf, -1, "at most 0"}}) {
    OwnedBatch batch;
    batch.rows = 2;
    batch.columns = 3;
    batch.train = {-1, -1, -1, -1, -1, c.train};
    batch.rollout = {-1, -1, -1, -1, -1, c.rollout};
    RlSummary summary;
    const auto added = summary.Add(batch.View());
    ASSERT_FALSE(added.has_value());
    EXPECT_NE(added.error().message().find(c.says), std::string::npos) << added.error().message();
    EXPECT_EQ(summary.tokens(), 0);
    batch.mask = {1, 1, 1, 1, 1, 0};
    EXPECT_TRUE(summary.Add(batch.View()).has_value()) << "padding is never looked at";
  }
}

TEST(RlDiagnostics, AMaskThatIsNotANumberIsRefusedWithItsPlace) {
  const OwnedBatch owned = NoisyBatch(2, 100, 0.1, 1);
  RlBatch batch = owned.View();
  for (const size_t at : {0u, 7u, 63u, 64u, 99u}) {  // before, in, after and at the end of the run
    std::vector<double> wide(200, 0);
    std::fill_n(wide.begin() + 105, 60, 1.0);
    wide[100 + at] = kNaN;
    const std::vector<float> narrow(wide.begin(), wide.end());
    for (const RlArray& mask :
         {RlArray{wide.data(), RlType::kF64, 100}, RlArray{narrow.data(), RlType::kF32, 100}}) {
      batch.mask = mask;
      RlSummary summary;
      const auto added = summary.Add(batch);
      ASSERT_FALSE(added.has_value());
      EXPECT_EQ(added.error().code(), ErrorCode::kBrokenEvidence);
      EXPECT_NE(added.error().message().find("mask at row 1, column " + std::to_string(at) + " "),
                std::string::npos)
          << added.error().message();
      const auto corrected = CorrectRl(batch, {}, {}, 2);
      ASSERT_FALSE(corrected.has_value());
      EXPECT_EQ(corrected.error().message(), added.error().message());
      const auto translated = RunDialect("trl", "", batch, {}, "{}");
      ASSERT_FALSE(translated.has_value());
      EXPECT_EQ(translated.error().message(), added.error().message());
    }
  }
}

TEST(RlDiagnostics, WrongShapesAreRefused) {
  const OwnedBatch good = NoisyBatch(3, 4, 0.1, 1);
  RlBatch batch = good.View();
  batch.train.row_stride = 3;
  EXPECT_FALSE(DiagnoseRl(batch).has_value());
  batch = good.View();
  batch.rollout = {};
  EXPECT_FALSE(DiagnoseRl(batch).has_value());
  batch = good.View();
  batch.train.type = RlType::kI32;
  EXPECT_FALSE(DiagnoseRl(batch).has_value());
  const std::vector<int32_t> slices = {0, 1, 7};
  batch = good.View();
  batch.slice_of_row = slices;
  EXPECT_FALSE(DiagnoseRl(batch).has_value());
  const std::vector<int64_t> offsets = {0, 4, 2, 12};
  batch = good.View();
  batch.offsets = offsets;
  EXPECT_FALSE(DiagnoseRl(batch).has_value());
}

TEST(RlDiagnostics, QuantilesHoldTheSortedValueAndTheTailIndexSeesAHeavyTail) {
  std::mt19937_64 random(2);
  std::exponential_distribution<double> tail(1 / 0.8);  // log w ~ Exp: w is Pareto with xi = 0.8
  std::vector<double> train, rollout, d;
  for (int i = 0; i < 100000; ++i) {
    train.push_back(-1);
    rollout.push_back(-1 - tail(random));
    d.push_back(train.back() - rollout.back());
  }
  RlBatch batch;
  batch.rows = 100;
  batch.columns = 1000;
  batch.train = {train.data(), RlType::kF64, 1000};
  batch.rollout = {rollout.data(), RlType::kF64, 1000};
  const auto metrics = DiagnoseRl(batch);
  ASSERT_TRUE(metrics.has_value());
  std::sort(d.begin(), d.end());
  for (const RlQuantile& quantile : metrics->quantiles) {
    const auto rank = static_cast<size_t>(std::ceil(quantile.p * 100000));
    EXPECT_LE(quantile.log_ratio.lo, d[rank - 1]);
    EXPECT_GE(quantile.log_ratio.hi, d[rank - 1]);
  }
  EXPECT_NEAR(metrics->tail_index, 0.8, 0.08);
}

TEST(RlSummary, DamagedBytesAreRefused) {
  RlSummary summary;
  ASSERT_TRUE(summary.Add(NoisyBatch(5, 9, 0.1, 1).View()).has_value());
  const std::string bytes = summary.Serialize();
  for (size_t cut = 0; cut < bytes.size(); cut += 1 + cut / 8) {
    EXPECT_FALSE(RlSummary::Parse(bytes.substr(0, cut)).has_value());
  }
  EXPECT_FALSE(RlSummary::Parse(bytes + "x").has_value());
  for (size_t i = 0; i < bytes.size(); i += 3) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x55);
    (void)RlSummary::Parse(flipped).has_value();  // no crash; some flips are other valid states
  }
}

}  // namespace
}  // namespace kcc
