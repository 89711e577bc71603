// Rows with mask constants on either side, on every backend, against 113-bit arithmetic. The search
// over a million of them is bench/drift_search.cc.
#include "kcc/drift/masked_row_pairs.h"

#include <gtest/gtest.h>

#include <bit>

#include "kcc/drift/reference.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/simd.h"

namespace kcc {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TokenDrift Reference(const RowPair& pair) {
  TokenDrift drift;
  const Result<> status = MeasureRowReference(pair, AllTokenSlots(), &drift);
  EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().Format());
  return drift;
}

TokenDrift Simd(const RowPair& pair, Target target = BestTarget()) {
  static RowScratch scratch;
  TokenDrift drift;
  const Result<> status = MeasureRowSimd(pair, AllTokenSlots(), target, &scratch, &drift);
  EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().Format());
  return drift;
}

double Value(const TokenDrift& drift, const std::string& name) { return drift.lo[TokenSlot(name)]; }

// As the caller has it: the same logits, `ids` of one side set to a constant.
MaskedCase Masked(size_t vocab, DType dtype, float on_train, float on_infer,
                  const std::vector<size_t>& ids) {
  MaskedCase made;
  TestRow row = ModelRow(vocab, 0.05, 0, 1, 11);
  for (const size_t i : ids) {
    if (on_train != 0) row.train[i] = on_train;
    if (on_infer != 0) row.infer[i] = on_infer;
  }
  made.name = "train " + std::to_string(on_train) + ", infer " + std::to_string(on_infer);
  made.dtype = dtype;
  made.costly = true;
  made.train = row.train;
  made.infer = row.infer;
  StoreLogits(dtype, &made.train, &made.stored_train);
  StoreLogits(dtype, &made.infer, &made.stored_infer);
  return made;
}

TEST(MaskedRows, AreMeasuredRightWhateverTheConstantAndTheSide) {
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2}) {
    std::vector<float> constants = MaskConstants(dtype);
    constants.push_back(0);  // not masked
    for (const float on_train : constants) {
      for (const float on_infer : constants) {
        for (const size_t vocab : {size_t{40}, size_t{400}}) {
          const MaskedCase made =
              Masked(vocab, dtype, on_train, on_infer, {0, 3, 7, 8, 9, 21, 30, 39});
          const auto truth = made.Truth();
          if (made.train[0] == -kInf && made.infer[0] == -kInf) continue;  // the token is masked
          EXPECT_EQ(FaultOf(made, truth, MaskedBands(), Reference(PairOf(made))), "")
              << DTypeName(dtype);
          EXPECT_EQ(FaultOf(made, truth, FastBands(1), Simd(PairOf(made))), "") << DTypeName(dtype);
        }
      }
    }
  }
}

// Eight tokens of 50,304 that only train masks: KL(train || infer) hardly notices.
TEST(MaskedRows, EightMaskedIdsOnTheTrainSideLeaveKlSmall) {
  for (const float constant : {-kInf, -3.4028234663852886e38f, -1e30f, -1e20f, -1e9f}) {
    const MaskedCase made = Masked(50304, DType::kF32, constant, 0, {5, 6, 7, 8, 9, 10, 11, 12});
    MaskedCase without = made;
    without.token = 100;
    const auto truth = without.Truth();
    EXPECT_LT(truth.at("kl"), 0.01);
    for (const TokenDrift& drift : {Reference(PairOf(without)), Simd(PairOf(without))}) {
      EXPECT_EQ(FaultOf(without, truth, FastBands(1), drift), "");
    }
  }
}

// Tokens that no side can sample: finite constants on both sides, at any distance, are as good as
// -inf on both, but for the distances of logits.
TEST(MaskedRows, WhatBothSidesMaskIsLeftOutOfEveryDivergence) {
  const std::vector<size_t> ids = {1, 64, 65, 66, 199};
  const MaskedCase left_out = Masked(300, DType::kF32, -kInf, -kInf, ids);
  const TokenDrift want = Reference(PairOf(left_out));
  for (const auto& [on_train, on_infer] :
       {std::pair(-1e30f, -kInf), std::pair(-kInf, -1e30f), std::pair(-1e9f, -2e9f),
        std::pair(-1e9f, -1e30f), std::pair(-3.4028234663852886e38f, -1000.0f)}) {
    const MaskedCase made = Masked(300, DType::kF32, on_train, on_infer, ids);
    for (const TokenDrift& drift : {Reference(PairOf(made)), Simd(PairOf(made))}) {
      for (const char* name : {"kl", "reverse_kl", "js", "tv", "hellinger", "chi2", "reverse_chi2",
                               "entropy", "train_entropy"}) {
        EXPECT_NEAR(Value(drift, name), Value(want, name), 2e-6 * Value(want, name))
            << name << " " << made.name;
      }
      EXPECT_GT(Value(drift, "logit_span"), 1e8) << made.name;
    }
  }
}

TEST(MaskedRows, AMaskThatOnlyTrainSetsIsAnInfiniteReverseKlAndNoMore) {
  const MaskedCase made = Masked(400, DType::kBF16, -kInf, 0, {2, 3, 90});
  for (const TokenDrift& drift : {Reference(PairOf(made)), Simd(PairOf(made))}) {
    EXPECT_EQ(Value(drift, "reverse_kl"), kInf);
    EXPECT_EQ(Value(drift, "reverse_chi2"), kInf);
    for (const char* name :
         {"logit_span", "logit_linf", "logit_l2", "raw_logit_linf", "raw_logit_l2"}) {
      EXPECT_EQ(Value(drift, name), kInf) << name;
    }
    for (const char* name : {"kl", "chi2", "js", "tv", "hellinger", "entropy_gap"}) {
      EXPECT_TRUE(std::isfinite(Value(drift, name))) << name;
    }
  }
}

// Train's likeliest token, which has all but 1e-30 of the mass, cannot be had from infer.
TEST(MaskedRows, TheLikeliestTokenMayBeMaskedOnTheOtherSide) {
  for (const float constant : {-kInf, -1e30f, -1e4f}) {
    MaskedCase made = Masked(100, DType::kF32, 0, 0, {});
    made.train[17] = 80;
    made.infer[17] = constant;
    made.stored_train.clear();
    made.stored_infer.clear();
    StoreLogits(DType::kF32, &made.train, &made.stored_train);
    StoreLogits(DType::kF32, &made.infer, &made.stored_infer);
    const auto truth = made.Truth();
    EXPECT_EQ(FaultOf(made, truth, MaskedBands(), Reference(PairOf(made))), "") << constant;
    EXPECT_EQ(FaultOf(made, truth, FastBands(1), Simd(PairOf(made))), "") << constant;
  }
}

// Of a million: chi-squareds that cancelled where kl did not, l2 norms of nearly equal differences,
// and entropies of all but certain tokens.
TEST(MaskedRows, WhatTheSearchOnceFound) {
  for (const uint64_t seed : {887035u, 167362u, 199459u, 375026u, 80505u, 983363u, 991929u}) {
    const MaskedCase made = MaskedCaseMaker(seed).Make();
    const auto truth = made.Truth();
    EXPECT_EQ(FaultOf(made, truth, MaskedBands(), Reference(PairOf(made))), "");
    EXPECT_EQ(FaultOf(made, truth, FastBands(made.temperature), Simd(PairOf(made))), "");
  }
}

TEST(MaskedRows, SearchFindsNoFault) {
  int faults = 0;
  for (uint64_t seed = 0; seed < 4000 && faults < 20; ++seed) {
    const MaskedCase made = MaskedCaseMaker(seed).Make();
    const auto truth = made.Truth();
    const std::string reference = FaultOf(made, truth, MaskedBands(), Reference(PairOf(made)));
    const TokenDrift drift = Simd(PairOf(made));
    const std::string simd = FaultOf(made, truth, FastBands(made.temperature), drift);
    EXPECT_EQ(reference, "") << "reference";
    EXPECT_EQ(simd, "") << "simd";
    faults += reference.empty() && simd.empty() ? 0 : 1;
    for (const Target target : AvailableTargets()) {
      const TokenDrift other = Simd(PairOf(made), target);
      for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
        EXPECT_EQ(std::bit_cast<uint64_t>(other.lo[slot]), std::bit_cast<uint64_t>(drift.lo[slot]))
            << TargetName(target) << " " << SlotName(slot) << " " << made.name;
      }
    }
  }
}

}  // namespace
}  // namespace kcc
