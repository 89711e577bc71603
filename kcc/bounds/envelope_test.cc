// The recursion's shape on descriptions small enough to follow by hand; its soundness on networks
// is checked in bench/bounds/envelope_check.cc.
#include "kcc/bounds/envelope.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace kcc {
namespace {

WeightNorms SquareNorms(int64_t n, double spectral) {
  const double frobenius = spectral * std::sqrt(static_cast<double>(n));
  const double entry = spectral / std::sqrt(static_cast<double>(n));
  return {n, n, spectral, frobenius, entry, spectral, frobenius, spectral};
}

ModelDescription SmallModel(int layers) {
  ModelDescription model;
  model.width = 16;
  model.heads = 2;
  model.head_dim = 8;
  model.context = 4;
  const WeightNorms w = SquareNorms(16, 0.1);
  model.layers.assign(static_cast<size_t>(layers), {w, w, w, w, w, w, w, 1, 1, 1, 1, 1, {}});
  model.lm_head = SquareNorms(16, 1);
  return model;
}

TEST(Envelope, OfAnExactKernelIsZero) {
  const Envelope envelope = EnvelopeOf(SmallModel(3), {});
  EXPECT_EQ(envelope.linf, 0);
  EXPECT_EQ(envelope.residual, std::vector<double>(3, 0.0));
  EXPECT_FALSE(envelope.vacuous);
}

TEST(Envelope, OfBf16LogitsAloneIsTheirRounding) {
  KernelDescription kernel;
  kernel.u_logits = 0x1p-8;
  // |z| <= longest row times ||y|| = 4.
  EXPECT_NEAR(EnvelopeOf(SmallModel(2), kernel).linf, 4 * 0x1p-8, 1e-9);
}

TEST(Envelope, GrowsWithLayersAndWithTheSourcesSwitchedOn) {
  KernelDescription kernel;
  kernel.u_accumulate = 0x1p-24;
  kernel.weights = {Quantizer::kInt, 8, DType::kF8E4M3, Granularity::kPerTensor};
  kernel.quantizes_lm_head = true;
  const double both = EnvelopeOf(SmallModel(2), kernel).linf;
  const double weights =
      EnvelopeOf(SmallModel(2), OnlySource(kernel, EnvelopeSource::kWeights)).linf;
  const double reduction =
      EnvelopeOf(SmallModel(2), OnlySource(kernel, EnvelopeSource::kReduction)).linf;
  EXPECT_GT(weights, reduction);
  EXPECT_GT(reduction, 0);
  EXPECT_GE(both, weights + reduction);
  EXPECT_GT(EnvelopeOf(SmallModel(3), kernel).linf, both);
  EXPECT_LT(EnvelopeOf(SmallModel(2), kernel, EnvelopeForm::kStatistical).linf, both);
  EXPECT_EQ(EnvelopeOf(SmallModel(2), OnlySource(kernel, EnvelopeSource::kKvCache)).linf, 0);
}

TEST(Envelope, SaysWhereItIsVacuous) {
  KernelDescription kernel;
  kernel.u_store = 0x1p-3;
  const Envelope envelope = EnvelopeOf(SmallModel(4), kernel);
  EXPECT_TRUE(envelope.vacuous);
  EXPECT_TRUE(std::isfinite(envelope.linf));
}

TEST(Envelope, MeasuredMaximaOnlyTighten) {
  KernelDescription kernel;
  kernel.u_accumulate = 0x1p-24;
  ModelDescription model = SmallModel(2);
  const double loose = EnvelopeOf(model, kernel).linf;
  for (LayerDescription& layer : model.layers) {
    layer.maxima.query_head = layer.maxima.key_head = 0.01;
    layer.maxima.gate_abs = 0.01;
    layer.maxima.attention_input = 1e9;  // above what the weights allow: ignored
  }
  EXPECT_LT(EnvelopeOf(model, kernel).linf, loose);
}

TEST(WeightError, FollowsTheScaleBlocks) {
  WeightNorms w{4, 9, 1, 2, 1.27, 1.6, 3, 1};
  const QuantizerDescription int8 = {Quantizer::kInt, 8, DType::kF8E4M3, Granularity::kPerTensor};
  // Half a step of .01 on each of 36 entries.
  EXPECT_NEAR(WeightErrorFrobenius(w, int8, EnvelopeForm::kWorstCase), 0.005 * 6, 1e-5);
  QuantizerDescription other = int8;
  other.granularity = Granularity::kPerChannel;
  EXPECT_NEAR(WeightErrorFrobenius(w, other, EnvelopeForm::kWorstCase), 1.6 * 3 / 254, 1e-5);
  other.granularity = Granularity::kPerGroup;
  EXPECT_NEAR(WeightErrorFrobenius(w, other, EnvelopeForm::kWorstCase), 3.0 / 254, 1e-5);
  EXPECT_NEAR(WeightErrorFrobenius(w, int8, EnvelopeForm::kStatistical), 0.01 / std::sqrt(12) * 6,
              1e-9);
  const QuantizerDescription fp8 = {Quantizer::kScaledFloat, 8, DType::kF8E4M3,
                                    Granularity::kPerTensor};
  const double subnormal = 1.27 * 6 * 0x1p-10 / 448;
  EXPECT_NEAR(WeightErrorFrobenius(w, fp8, EnvelopeForm::kWorstCase), 2.0 / 17 + subnormal, 1e-6);
  EXPECT_EQ(WeightErrorFrobenius(w, {}, EnvelopeForm::kWorstCase), 0);
}

TEST(EnvelopeSource, HasANameEach) {
  for (const EnvelopeSource source :
       {EnvelopeSource::kWeights, EnvelopeSource::kActivations, EnvelopeSource::kKvCache,
        EnvelopeSource::kReduction, EnvelopeSource::kStorage, EnvelopeSource::kAngles,
        EnvelopeSource::kAttention, EnvelopeSource::kLogits}) {
    EXPECT_FALSE(SourceName(source).empty());
  }
}

}  // namespace
}  // namespace kcc
