// Both backends against the definitions in 113-bit arithmetic: within the promised bands, and true
// to the inequalities between quantities.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "kcc/drift/backends_test_data.h"

namespace kcc {
namespace {

using testing::PairOf;
using testing::PeakedRows;
using testing::Reference;
using testing::Rows;
using testing::Simd;
using testing::Value;

constexpr double kInf = std::numeric_limits<double>::infinity();

// The promised bands: relative error 2e-6 down to KL = 1e-12, 1e-4 down to 1e-14.
void ExpectWithinBands(const TokenDrift& drift, const std::map<std::string, double>& truth,
                       const std::string& name) {
  const double kl = truth.at("kl");
  const double band = kl >= 1e-12 ? 2e-6 : kl >= 1e-14 ? 1e-4 : kInf;
  for (const char* quantity :
       {"kl", "reverse_kl", "tv", "chi2", "reverse_chi2", "hellinger", "js"}) {
    const auto want = truth.find(quantity);
    if (want == truth.end()) continue;
    const double got = Value(drift, quantity);
    EXPECT_FALSE(std::isnan(got)) << name << " " << quantity;
    EXPECT_GE(got, 0) << name << " " << quantity;
    if (std::isinf(want->second) || band == kInf) continue;
    EXPECT_LE(std::fabs(got - want->second), band * want->second)
        << name << " " << quantity << " " << got << " against " << want->second;
  }
  for (const char* quantity : {"logit_span", "logit_linf", "logit_l2", "raw_logit_l2",
                               "raw_logit_linf", "train_entropy", "entropy"}) {
    const double want = truth.at(quantity);
    EXPECT_LE(std::fabs(Value(drift, quantity) - want), 2e-6 * want + 1e-30)
        << name << " " << quantity << " " << Value(drift, quantity) << " against " << want;
  }
  // Resolved far below the entropies themselves: sum |q - p| |log p| sets its scale.
  EXPECT_NEAR(Value(drift, "entropy_gap"), truth.at("entropy_gap"),
              2e-6 * (truth.at("entropy_gap") + 40 * truth.at("tv")) + 1e-17)
      << name;
}

TEST(Backends, StayWithinTheAccuracyBands) {
  for (const TestRow& row : Rows()) {
    const auto truth = RowTruth(row.train, row.infer, 1, row.train.size() < 300);
    ExpectWithinBands(Reference(PairOf(row)), truth, "reference " + row.name);
    ExpectWithinBands(Simd(PairOf(row)), truth, "simd " + row.name);
  }
}

TEST(Backends, StayWithinTheAccuracyBandsWhereOneTokenHasAlmostAllMass) {
  for (const TestRow& row : PeakedRows()) {
    const auto truth = RowTruth(row.train, row.infer, 1, row.train.size() < 300);
    ExpectWithinBands(Reference(PairOf(row)), truth, "reference " + row.name);
    ExpectWithinBands(Simd(PairOf(row)), truth, "simd " + row.name);
  }
}

TEST(Backends, StayWithinTheAccuracyBandsOnTheLargestVocabularies) {
  const TestRow row = ModelRow(200000, 1e-3, 0, 1, 8);
  const auto truth = RowTruth(row.train, row.infer, 1, false);
  ExpectWithinBands(Reference(PairOf(row)), truth, "reference 200000");
  ExpectWithinBands(Simd(PairOf(row)), truth, "simd 200000");
}

// Run by the test drift_slow (ctest label slow).
TEST(Backends, DISABLED_SlowStayWithinTheAccuracyBandsOnAWideGrid) {
  uint64_t seed = 5000;
  for (const size_t vocab : std::initializer_list<size_t>{50257, 128256, 200000}) {
    for (const double sigma : {1e-7, 1e-6, 1e-4, 1e-2, 0.1, 1.0, 3.0, 10.0}) {
      for (const double sharpen : {1.0, 3.0}) {
        const TestRow row = ModelRow(vocab, sigma, 0, sharpen, seed++);
        const auto truth = RowTruth(row.train, row.infer, 1, false);
        ExpectWithinBands(Simd(PairOf(row)), truth,
                          "V=" + std::to_string(vocab) + " sigma=" + std::to_string(sigma));
      }
    }
  }
  for (int i = 0; i < 3000; ++i) {
    const size_t vocab = 64 + seed % 700;
    const double sigma = std::pow(10.0, -6 + static_cast<double>(seed % 13) / 2);
    const TestRow row = ModelRow(vocab, sigma, 0, 1 + static_cast<double>(seed % 3), seed);
    const auto truth = RowTruth(row.train, row.infer, 1, false);
    ExpectWithinBands(Simd(PairOf(row)), truth, "seed " + std::to_string(seed));
    ++seed;
  }
}

TEST(Backends, StayWithinTheAccuracyBandsAtOtherTemperatures) {
  for (const double temperature : {0.3, 0.7, 1.3, 5.0}) {
    for (const double sigma : {1e-4, 1e-2, 0.5}) {
      const TestRow row = ModelRow(2500, sigma, 0, 1, 55);
      const auto truth = RowTruth(row.train, row.infer, temperature, false);
      const std::string name = "T=" + std::to_string(temperature) + " " + std::to_string(sigma);
      ExpectWithinBands(Reference(PairOf(row, temperature)), truth, "reference " + name);
      ExpectWithinBands(Simd(PairOf(row, temperature)), truth, "simd " + name);
    }
  }
}

// docs/math.md A.3: a violation would be an error of measurement.
TEST(Backends, ObeyTheInequalitiesBetweenQuantities) {
  std::vector<TestRow> rows = Rows();
  for (TestRow& row : PeakedRows()) rows.push_back(std::move(row));
  for (const TestRow& row : rows) {
    for (const TokenDrift& drift : {Simd(PairOf(row)), Reference(PairOf(row))}) {
      const double slack = 1 + 4e-6;
      const double span = Value(drift, "logit_span");
      const double kl = Value(drift, "kl");
      const double reverse = Value(drift, "reverse_kl");
      const double tv = Value(drift, "tv");
      const double tiny = 1e-15;
      EXPECT_LE(tv, std::tanh(span / 4) * slack + tiny) << row.name;
      EXPECT_LE(kl, span * span / 8 * slack + tiny) << row.name;
      EXPECT_LE(reverse, span * span / 8 * slack + tiny) << row.name;
      EXPECT_LE(kl + reverse, span * std::tanh(span / 4) * slack + tiny) << row.name;
      EXPECT_LE(kl, span * tv * slack + tiny) << row.name;
      EXPECT_LE(tv, std::sqrt(std::min(kl, reverse) / 2) * slack + tiny) << row.name;
      EXPECT_LE(Value(drift, "hellinger"), (1 - 1 / std::cosh(span / 4)) * slack + tiny)
          << row.name;
      if (span < 600) {
        EXPECT_LE(Value(drift, "chi2"), std::pow(std::sinh(span / 2), 2) * slack + tiny);
        EXPECT_LE(Value(drift, "reverse_chi2"), std::pow(std::sinh(span / 2), 2) * slack + tiny);
      }
      EXPECT_LE(Value(drift, "abs_log_ratio"), span * slack + tiny) << row.name;
      EXPECT_LE(Value(drift, "hellinger"), tv * slack + tiny) << row.name;
    }
  }
}

}  // namespace
}  // namespace kcc
