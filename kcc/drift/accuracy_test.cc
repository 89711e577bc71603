// The worst that float32 does to the fast backend: log-ratios of two values, as far apart as a
// range of numeric/exp_series.h is wide, where its error is largest and the sums cancel as much as
// they may. Asserted as a band: the promise of simd.h must neither be broken nor be idle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_truth.h"
#include "kcc/drift/simd.h"

namespace kcc {
namespace {

std::map<std::string, double> WorstErrors(double end, int rows) {
  std::mt19937_64 random(7);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  std::map<std::string, double> worst;
  RowScratch scratch;
  for (int i = 0; i < rows; ++i) {
    const size_t vocab = 64 * (1 + random() % 3);
    TestRow row = ModelRow(vocab, 0, 0, 0.2 + uniform(), random());
    double low = -end * (uniform() < 0.5 ? 1 : uniform());
    double high = end * (uniform() < 0.5 ? std::pow(10, -3 * uniform()) : uniform());
    if (random() % 2 == 0) low = -std::exchange(high, -low);
    const double share = std::pow(10, -3 * uniform());
    const double noise = uniform() < 0.5 ? 0 : std::pow(10, -4 * uniform());
    for (size_t k = 0; k < vocab; ++k) {
      const double d = (uniform() < share ? high : low) + noise * (uniform() - 0.5);
      row.infer[k] = row.train[k] + static_cast<float>(std::clamp(d, -end, end));
    }
    const auto truth = RowTruth(row.train, row.infer, 1, false);
    if (truth.at("kl") < 1e-12) continue;
    RowPair pair;
    pair.train = row.train.data();
    pair.infer = row.infer.data();
    pair.vocab = vocab;
    TokenDrift drift;
    EXPECT_TRUE(MeasureRowSimd(pair, AllTokenSlots(), BestTarget(), &scratch, &drift));
    for (const char* name : {"kl", "reverse_kl", "tv", "chi2", "reverse_chi2"}) {
      const double want = truth.at(name);
      const double error = std::fabs(drift.lo[TokenSlot(name)] - want) / want;
      worst[name] = std::max(worst[name], error);
    }
  }
  return worst;
}

TEST(Accuracy, StaysWithinThePromiseWhereTheSeriesAndTheSumsAreWorst) {
  for (const double end : {2.0, 0.5}) {
    auto worst = WorstErrors(end, 3000);
    for (const auto& [name, error] : worst) {
      EXPECT_LE(error, 4e-6) << name << " up to " << end;
    }
    if (end == 2.0) {
      EXPECT_GE(worst["kl"], 1e-6);
    }
  }
}

}  // namespace
}  // namespace kcc
