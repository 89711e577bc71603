#include "kcc/drift/row_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_truth.h"
#include "kcc/drift/simd.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TokenDrift DriftOf(std::initializer_list<std::pair<const char*, double>> values) {
  TokenDrift drift;
  for (const auto& [name, value] : values) drift.Set(TokenSlot(name), value);
  return drift;
}

std::string Said(const TokenDrift& drift) {
  const Result<> done = CheckRow(drift);
  if (done) return "";
  EXPECT_EQ(done.error().code(), ErrorCode::kBrokenEvidence);
  return done.error().message();
}

TEST(RowCheck, NamesTheDivergenceBelowZero) {
  for (const char* name : {"kl", "reverse_kl", "js"}) {
    EXPECT_EQ(Said(DriftOf({{name, -0.26}})).find(std::string(name) + " is -0.26; "), 0u);
    EXPECT_NE(Said(DriftOf({{name, std::nan("")}})), "");
    EXPECT_NE(Said(DriftOf({{name, -2e-9}})), "");
    EXPECT_EQ(Said(DriftOf({{name, -1e-10}})), "");
    EXPECT_EQ(Said(DriftOf({{name, 0}})), "");
    EXPECT_EQ(Said(DriftOf({{name, kInf}})), "");
  }
}

TEST(RowCheck, HoldsTvAgainstTheSmallerKl) {
  EXPECT_EQ(Said(DriftOf({{"kl", 0.02}, {"reverse_kl", 0.5}, {"tv", 0.1}})), "");
  EXPECT_EQ(Said(DriftOf({{"kl", 0.02}, {"reverse_kl", 0.5}, {"tv", 0.100009}})), "");
  EXPECT_EQ(Said(DriftOf({{"kl", 0.02}, {"reverse_kl", 0.5}, {"tv", 0.1002}}))
                .find("tv is 0.1002 where the smaller KL divergence is 0.02; "),
            0u);
  EXPECT_NE(Said(DriftOf({{"kl", 0.5}, {"reverse_kl", 0.02}, {"tv", 0.1002}})), "");
  EXPECT_NE(Said(DriftOf({{"kl", 0}, {"tv", 2e-7}})), "");
  EXPECT_NE(Said(DriftOf({{"kl", 1}, {"tv", std::nan("")}})), "");
  EXPECT_EQ(Said(DriftOf({{"kl", kInf}, {"reverse_kl", kInf}, {"tv", 1}})), "");
}

TEST(RowCheck, AsksOnlyWhatIsKnown) {
  EXPECT_EQ(Said(TokenDrift()), "");
  EXPECT_EQ(Said(DriftOf({{"tv", 0.9}})), "");
  EXPECT_NE(Said(DriftOf({{"tv", 0.9}, {"reverse_kl", 0.1}})), "");
}

// Of an interval, the end that is hardest to refute.
TEST(RowCheck, TakesIntervalsAtTheirWord) {
  TokenDrift drift;
  drift.SetInterval(TokenSlot("kl"), -0.1, 0.02);
  drift.SetInterval(TokenSlot("reverse_kl"), 0, 0.02);
  drift.SetInterval(TokenSlot("tv"), 0.05, 0.9);
  EXPECT_EQ(Said(drift), "");
  drift.SetInterval(TokenSlot("tv"), 0.2, 0.9);
  EXPECT_NE(Said(drift), "");
}

// The tv of an overlapped row comes from weights that another row may overwrite: a mistake there
// must not pass for a measurement.
TEST(RowCheck, RefusesARowWhoseWeightsWereOverwritten) {
  const TestRow row = ModelRow(4096, 0.05, 0, 1, 3);
  RowPair pair;
  pair.train = row.train.data();
  pair.infer = row.infer.data();
  pair.vocab = row.train.size();
  RowScratch scratch;
  TokenDrift drift;
  ASSERT_TRUE(BeginRowSimd(pair, AllTokenSlots(), BestTarget(), &scratch, &drift));
  EXPECT_EQ(Said(drift), "");
  for (RowScratch::Line& line : scratch.weights) std::fill(line.at, line.at + 16, 1e3f);
  FinishRowSimd(&scratch);
  EXPECT_EQ(Said(drift).find("tv is 1 where the smaller KL divergence is "), 0u);
}

}  // namespace
}  // namespace kcc
