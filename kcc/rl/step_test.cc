// StepRl is RlSummary::Add and CorrectRl in one visit: same state, same weights, same metrics,
// whatever the types, masks and threads.
#include <gtest/gtest.h>

#include <cstring>

#include "kcc/rl/correction.h"
#include "kcc/rl/rl_test_data.h"
#include "kcc/rl/rl_version1.h"
#include "kcc/rl/row_kernel.h"

namespace kcc {
namespace {

using testing::NoisyBatch;

// Corrections that take every way through the corrector.
std::vector<RlCorrection> Corrections() {
  std::vector<RlCorrection> all;
  for (const RlWeightMode mode : {RlWeightMode::kOff, RlWeightMode::kFull, RlWeightMode::kTruncate,
                                  RlWeightMode::kClip, RlWeightMode::kMask}) {
    for (const RlLevel level :
         {RlLevel::kToken, RlLevel::kSequence, RlLevel::kGeometric, RlLevel::kSegment}) {
      RlCorrection correction;
      correction.weight = {mode, level, 0.95, 1.02, mode == RlWeightMode::kTruncate};
      all.push_back(correction);
      correction.reject = {{RlStatistic::kK1, RlAggregate::kSequenceMean, 0.99, 1.01}};
      all.push_back(correction);
      correction.reject.push_back({RlStatistic::kRatio, RlAggregate::kTokenwise, 0.9, 1.1});
      correction.veto = RlVeto{0.8, 1.3};
      all.push_back(correction);
    }
  }
  return all;
}

// The batch with whole rows: every mask one run, which may begin late.
testing::OwnedBatch PlainRows(testing::OwnedBatch batch) {
  for (int64_t r = 0; r < batch.rows; ++r) {
    const int64_t begin = r % 5, end = batch.columns - r % 11;
    for (int64_t t = 0; t < batch.columns; ++t) {
      batch.mask[static_cast<size_t>(r * batch.columns + t)] = t >= begin && t < end && r % 7 != 3;
    }
  }
  return batch;
}

void ExpectSame(const RlBatch& batch, const RlCorrection& correction, int threads) {
  const auto size = static_cast<size_t>(batch.rows * batch.columns);
  std::vector<float> want(size, 7), got(size, 7);
  std::vector<uint8_t> want_mask(size, 7), got_mask(size, 7);
  RlCorrectOutput want_out, got_out;
  want_out.weights = want;
  want_out.mask = want_mask;
  got_out.weights = got;
  got_out.mask = got_mask;
  RlSummary want_summary, got_summary;
  ASSERT_TRUE(want_summary.Add(batch).has_value());
  const auto want_metrics = CorrectRl(batch, correction, want_out);
  const auto got_metrics = StepRl(batch, correction, got_out, threads, &got_summary);
  ASSERT_TRUE(want_metrics.has_value() && got_metrics.has_value());
  EXPECT_EQ(want_summary.Serialize(), got_summary.Serialize());
  EXPECT_EQ(std::memcmp(want.data(), got.data(), size * sizeof(float)), 0);
  EXPECT_EQ(want_mask, got_mask);
  EXPECT_EQ(rl_version1::CorrectionFiguresJson(*want_metrics),
            rl_version1::CorrectionFiguresJson(*got_metrics));
}

TEST(StepRl, IsAddAndCorrectInOneVisit) {
  const auto holes = NoisyBatch(23, 77, 0.03, 1);
  const auto plain = PlainRows(holes);
  for (const RlCorrection& correction : Corrections()) {
    SCOPED_TRACE(DescribeCorrection(correction));
    ExpectSame(holes.View(), correction, 3);
    ExpectSame(plain.View(), correction, 2);
  }
}

// Read where it lies or through RlRow, which advantages by token force: the same sums and weights.
TEST(StepRl, RowsReadWhereTheyLieGiveWhatCopiesGive) {
  auto plain = PlainRows(NoisyBatch(23, 77, 0.03, 2));
  plain.advantages.clear();
  std::vector<double> nothing(plain.train.size(), 0.0);
  RlBatch copied = plain.View();
  copied.advantages = {nothing.data(), RlType::kF64, plain.columns};
  copied.advantage_per_row = false;
  for (const RlCorrection& correction : Corrections()) {
    SCOPED_TRACE(DescribeCorrection(correction));
    std::vector<double> want(plain.train.size()), got(plain.train.size());
    RlCorrectOutput want_out, got_out;
    want_out.weights_double = want;
    got_out.weights_double = got;
    RlSummary a, b;
    const auto one = StepRl(plain.View(), correction, got_out, 1, &a);
    const auto two = StepRl(copied, correction, want_out, 1, &b);
    ASSERT_TRUE(one.has_value() && two.has_value());
    EXPECT_EQ(want, got);
    EXPECT_EQ(rl_version1::CorrectionFiguresJson(*one), rl_version1::CorrectionFiguresJson(*two));
    for (const std::string& slice : a.slices()) {
      RlMetrics x = *a.Metrics(slice), y = *b.Metrics(slice);
      y.has_advantages = x.has_advantages;
      y.skew = x.skew;
      EXPECT_EQ(rl_version1::FiguresJson(x), rl_version1::FiguresJson(y));
    }
  }
}

TEST(StepRl, MasksOfEveryTypeAndFloat32LogProbs) {
  const auto owned = PlainRows(NoisyBatch(9, 70, 0.03, 3));
  const auto copy = [&]<class T>(T) {
    return std::vector<T>(owned.mask.begin(), owned.mask.end());
  };
  const auto f32 = copy(float{}),
             train = std::vector<float>(owned.train.begin(), owned.train.end());
  const auto rollout = std::vector<float>(owned.rollout.begin(), owned.rollout.end());
  const auto f64 = copy(double{});
  const auto i32 = copy(int32_t{});
  const auto i64 = copy(int64_t{});
  RlBatch batch = owned.View();
  batch.train = {train.data(), RlType::kF32, owned.columns};
  batch.rollout = {rollout.data(), RlType::kF32, owned.columns};
  const RlCorrection correction = PaperCorrection(0.02);
  RlSummary first;
  ASSERT_TRUE(first.Add(batch).has_value());
  const RlArray masks[] = {{f32.data(), RlType::kF32, owned.columns},
                           {f64.data(), RlType::kF64, owned.columns},
                           {i32.data(), RlType::kI32, owned.columns},
                           {i64.data(), RlType::kI64, owned.columns}};
  for (const RlArray& mask : masks) {
    batch.mask = mask;
    ExpectSame(batch, correction, 2);
    RlSummary summary;
    ASSERT_TRUE(summary.Add(batch).has_value());
    EXPECT_EQ(summary.Serialize(), first.Serialize());
  }
}

TEST(StepRl, AFaultAddsNothingAndIsNamed) {
  auto owned = PlainRows(NoisyBatch(9, 70, 0.03, 4));
  owned.train[70 * 8 + 20] = std::nan("");
  RlSummary summary;
  const auto stepped = StepRl(owned.View(), PaperCorrection(0.02), {}, 2, &summary);
  ASSERT_FALSE(stepped.has_value());
  EXPECT_NE(stepped.error().message().find("row 8, column 20"), std::string::npos);
  EXPECT_EQ(summary.Serialize(), RlSummary().Serialize());
  owned.train[70 * 8 + 20] = 0.5;
  EXPECT_FALSE(StepRl(owned.View(), PaperCorrection(0.02), {}, 2, &summary).has_value());
  owned.train[70 * 8 + 20] = -1000;  // no chance, but a finding, not a fault
  ExpectSame(owned.View(), PaperCorrection(0.02), 2);
}

TEST(SumRlPair, EveryTargetGivesSumRlRowsBits) {
  for (const double noise : {1e-4, 0.04, 0.5}) {  // all chunks small, some, none
    const auto owned = NoisyBatch(1, 1003, noise, 5);
    std::vector<double> d(1003);
    for (size_t i = 0; i < 1003; ++i) d[i] = owned.train[i] - owned.rollout[i];
    std::vector<uint32_t> want_buckets(kRlBuckets), got_buckets(kRlBuckets);
    CountRlBuckets(d.data(), 1003, want_buckets.data());
    for (const Target target : AvailableTargets()) {
      SCOPED_TRACE(TargetName(target));
      std::vector<double> excess(1008), got(1008);
      std::vector<uint16_t> buckets(1008);
      const RlRowSums want =
          SumRlRow(d.data(), owned.rollout.data(), 1003, excess.data(), Target::kScalar);
      const RlPairSums pair = SumRlPair({owned.train.data(), owned.rollout.data(), true, 1003, {}},
                                        {got.data(), nullptr, buckets.data()}, target);
      EXPECT_TRUE(pair.usual);
      EXPECT_EQ(std::memcmp(&want, &pair.row, sizeof(want)), 0);
      EXPECT_EQ(excess, got);
      std::fill(got_buckets.begin(), got_buckets.end(), 0);
      CountRlBuckets(buckets.data(), 1003, got_buckets.data());
      EXPECT_EQ(want_buckets, got_buckets);
    }
  }
}

}  // namespace
}  // namespace kcc
