// Both backends against each other, and the vector targets against one another, bit by bit. Their
// accuracy is in accuracy_bands_test.cc.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kcc/drift/backends_test_data.h"

namespace kcc {
namespace {

using testing::PairOf;
using testing::PeakedRows;
using testing::Reference;
using testing::Rows;
using testing::Simd;
using testing::Value;

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Backends, KnowEveryTokenSlotOfTheCatalog) {
  const TestRow row = ModelRow(500, 0.1, 0, 1, 7);
  EXPECT_EQ(Reference(PairOf(row)).known, AllTokenSlots());
  for (const Target target : AvailableTargets()) {
    EXPECT_EQ(Simd(PairOf(row), target).known, AllTokenSlots()) << TargetName(target);
  }
}

TEST(Backends, GiveOnlyWhatIsWantedAndNothingAboutAMissingToken) {
  const TestRow row = ModelRow(500, 0.1, 0, 1, 7);
  SlotSet wanted;
  wanted.set(TokenSlot("kl")).set(TokenSlot("log_ratio")).set(TokenSlot("rank"));
  RowScratch scratch;
  TokenDrift drift;
  ASSERT_TRUE(MeasureRowSimd(PairOf(row), wanted, BestTarget(), &scratch, &drift));
  EXPECT_EQ(drift.known, wanted);
  SlotSet without_token = AllTokenSlots() & ~SampledTokenSlots();
  without_token.reset(TokenSlot("rank")).reset(TokenSlot("train_rank"));
  EXPECT_EQ(Simd(PairOf(row, 1, -1)).known, without_token);
  EXPECT_EQ(Reference(PairOf(row, 1, -1)).known, without_token);
}

TEST(Backends, FindNothingBetweenIdenticalRows) {
  for (const size_t vocab : std::initializer_list<size_t>{1, 50, 64, 3000}) {
    const TestRow row = ModelRow(vocab, 0, 0, 1, 3);
    for (const TokenDrift& drift : {Reference(PairOf(row)), Simd(PairOf(row))}) {
      for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
        const std::string name = SlotName(slot);
        const bool side = name.find("entropy") != std::string::npos && name != "entropy_gap";
        if (side || name.find("margin") != std::string::npos ||
            name.find("rank") != std::string::npos) {
          continue;
        }
        const bool one = name == "w" || name.find("overlap") != std::string::npos;
        EXPECT_EQ(drift.lo[slot], one ? 1 : 0) << name << " V=" << vocab;
        EXPECT_FALSE(std::signbit(drift.lo[slot])) << name;
      }
    }
  }
}

TEST(Backends, SimdGivesTheSameBitsOnEveryTarget) {
  std::vector<TestRow> rows = Rows();
  for (TestRow& row : PeakedRows()) rows.push_back(std::move(row));
  for (const TestRow& row : rows) {
    for (const double temperature : {1.0, 0.8}) {
      const TokenDrift want = Simd(PairOf(row, temperature), Target::kScalar);
      for (const Target target : AvailableTargets()) {
        const TokenDrift got = Simd(PairOf(row, temperature), target);
        for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
          EXPECT_EQ(std::bit_cast<uint64_t>(got.lo[slot]), std::bit_cast<uint64_t>(want.lo[slot]))
              << TargetName(target) << " " << row.name << " " << SlotName(slot);
        }
        EXPECT_EQ(got.argmax, want.argmax);
        EXPECT_EQ(got.confidence, want.confidence);
      }
    }
  }
}

// Vocabularies change, a row is masked, another goes to the reference backend, one is refused.
TEST(Backends, RowsBegunOneAfterTheOtherGiveTheBitsOfEachAlone) {
  std::vector<TestRow> rows;
  for (const size_t vocab : std::initializer_list<size_t>{5000, 5000, 4990, 130, 130, 30, 5000}) {
    rows.push_back(ModelRow(vocab, rows.size() == 1 ? 1.0 : 1e-2, 0, 1, 90 + rows.size()));
  }
  rows.push_back(rows[0]);  // masked from the third block on
  rows.back().train[4500] = rows.back().infer[4500] = -kInf;
  rows.push_back(rows[0]);
  rows.back().infer[10] = -kInf;  // on one side only
  rows.push_back(rows[3]);
  rows.push_back(rows[3]);
  rows.back().train[70] = rows.back().infer[70] = -kInf;  // as many whole groups are left
  rows.push_back(rows[3]);
  for (const Target target : AvailableTargets()) {
    RowScratch scratch;
    std::vector<TokenDrift> drifts(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      TestRow broken = rows[i];
      broken.infer[broken.infer.size() / 2] = kInf;
      TokenDrift unused;
      ASSERT_TRUE(BeginRowSimd(PairOf(rows[i]), AllTokenSlots(), target, &scratch, &drifts[i]));
      if (i % 3 == 1) {
        EXPECT_FALSE(BeginRowSimd(PairOf(broken), AllTokenSlots(), target, &scratch, &unused));
      }
    }
    FinishRowSimd(&scratch);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(drifts[i].lo, Simd(PairOf(rows[i]), target).lo) << i << TargetName(target);
      EXPECT_EQ(drifts[i].known, AllTokenSlots());
    }
  }
}

// The bits themselves, so that another compiler, library or CPU would show. Rows from integers.
TEST(Backends, GiveTheBitsTheyAlwaysGave) {
  std::mt19937_64 random(2026);
  uint64_t hash = 14695981039346656037u;
  for (const size_t vocab : std::initializer_list<size_t>{1, 31, 64, 777, 4099}) {
    for (const int noise : {1, 64, 4096, 200000}) {
      TestRow row;
      for (size_t i = 0; i < vocab; ++i) {
        const auto z = static_cast<float>(static_cast<int>(random() % 200000)) / 10000.0f;
        const int d = static_cast<int>(random() % static_cast<uint64_t>(2 * noise + 1)) - noise;
        row.train.push_back(z);
        row.infer.push_back(z + static_cast<float>(d) / 65536.0f);
      }
      for (const TokenDrift& drift :
           {Simd(PairOf(row)), Reference(PairOf(row)), Simd(PairOf(row, 0.7), Target::kScalar)}) {
        for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
          hash = (hash ^ std::bit_cast<uint64_t>(drift.lo[slot])) * 1099511628211u;
        }
      }
    }
  }
  EXPECT_EQ(hash, 2651718572841635889u);
}

struct Stored {
  std::vector<uint8_t> train;
  std::vector<uint8_t> infer;
  TestRow widened;
};

template <class Narrow, class Widen>
Stored Store(const TestRow& row, Narrow narrow, Widen widen) {
  Stored stored;
  stored.widened = row;
  const auto convert = [&](std::vector<float>* floats, std::vector<uint8_t>* bytes) {
    for (float& z : *floats) {
      const auto bits = narrow(z);
      const auto* from = reinterpret_cast<const uint8_t*>(&bits);
      bytes->insert(bytes->end(), from, from + sizeof(bits));
      z = widen(bits);
    }
  };
  convert(&stored.widened.train, &stored.train);
  convert(&stored.widened.infer, &stored.infer);
  return stored;
}

void ExpectSameAsWidened(const Stored& stored, DType dtype) {
  RowPair pair = PairOf(stored.widened);
  for (const Target target : AvailableTargets()) {
    const TokenDrift want = Simd(PairOf(stored.widened), target);
    pair.train = stored.train.data();
    pair.infer = stored.infer.data();
    pair.train_dtype = pair.infer_dtype = dtype;
    EXPECT_EQ(Simd(pair, target).lo, want.lo) << DTypeName(dtype) << TargetName(target);
    EXPECT_EQ(Reference(pair).lo, Reference(PairOf(stored.widened)).lo) << DTypeName(dtype);
    pair.train = stored.widened.train.data();
    pair.train_dtype = DType::kF32;  // mixed
    EXPECT_EQ(Simd(pair, target).lo, want.lo) << "F32 and " << DTypeName(dtype);
  }
}

TEST(Backends, NarrowFormatsGiveTheBitsOfTheSameValuesAsF32) {
  for (const size_t vocab : std::initializer_list<size_t>{70, 2048, 5000}) {
    for (const double sigma : {1e-3, 0.3}) {
      const TestRow row = ModelRow(vocab, sigma, 0, 1, 77);
      ExpectSameAsWidened(Store(
                              row, [](float z) { return FloatToBF16(z); }, &BF16ToFloat),
                          DType::kBF16);
      ExpectSameAsWidened(Store(
                              row, [](float z) { return FloatToF16(z); }, &F16ToFloat),
                          DType::kF16);
      ExpectSameAsWidened(Store(
                              row, [](float z) { return FloatToF8E4M3(z); }, &F8E4M3ToFloat),
                          DType::kF8E4M3);
      ExpectSameAsWidened(Store(
                              row, [](float z) { return FloatToF8E5M2(z); }, &F8E5M2ToFloat),
                          DType::kF8E5M2);
    }
  }
}

TEST(Backends, LeaveOutWhatIsMaskedOnBothSides) {
  const TestRow row = ModelRow(3000, 0.05, 0, 1, 5);
  TestRow masked = row;
  TestRow left;
  std::mt19937_64 random(9);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < row.train.size(); ++i) {
    if (random() % 3 == 0 && i != 40) {
      masked.train[i] = masked.infer[i] = -kInf;
    } else {
      left.train.push_back(row.train[i]);
      left.infer.push_back(row.infer[i]);
      ids.push_back(static_cast<int32_t>(i));
    }
  }
  const auto token = static_cast<int32_t>(std::find(ids.begin(), ids.end(), 40) - ids.begin());
  const TokenDrift got = Simd(PairOf(masked, 1, 40));
  const TokenDrift want = Simd(PairOf(left, 1, token));
  EXPECT_EQ(got.lo, want.lo);
  EXPECT_EQ(got.argmax[kInfer], ids[static_cast<size_t>(want.argmax[kInfer])]);
  EXPECT_EQ(Reference(PairOf(masked, 1, 40)).lo, Reference(PairOf(left, 1, token)).lo);
}

TEST(Backends, CallAOneSidedMaskAnInfiniteDivergence) {
  TestRow row = ModelRow(300, 0.05, 0, 1, 5);
  row.infer[7] = -kInf;  // train gives it mass, infer none
  for (const TokenDrift& drift : {Reference(PairOf(row)), Simd(PairOf(row))}) {
    EXPECT_EQ(Value(drift, "kl"), kInf);
    EXPECT_EQ(Value(drift, "chi2"), kInf);
    EXPECT_EQ(Value(drift, "logit_span"), kInf);
    EXPECT_TRUE(std::isfinite(Value(drift, "reverse_kl")));
    EXPECT_TRUE(std::isfinite(Value(drift, "reverse_chi2")));
    EXPECT_LE(Value(drift, "tv"), 1);
    for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
      EXPECT_FALSE(std::isnan(drift.lo[slot])) << SlotName(slot);
    }
  }
  const TokenDrift sampled = Simd(PairOf(row, 1, 7));
  EXPECT_EQ(Value(sampled, "log_ratio"), kInf);
  EXPECT_EQ(Value(sampled, "w"), kInf);
  TestRow disjoint{"", {0, 1, -kInf, -kInf}, {-kInf, -kInf, 2, 0}};
  const TokenDrift apart = Reference(PairOf(disjoint));
  EXPECT_DOUBLE_EQ(Value(apart, "tv"), 1);
  EXPECT_DOUBLE_EQ(Value(apart, "hellinger"), 1);
  EXPECT_DOUBLE_EQ(Value(apart, "js"), std::log(2.0));
  EXPECT_EQ(Value(apart, "kl"), kInf);
}

TEST(Backends, RefuseWhatIsNotANumberAndSayWhere) {
  for (const size_t vocab : std::initializer_list<size_t>{10, 64, 5000}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf, -std::nanf("")}) {
      for (const bool on_train : {true, false}) {
        for (const size_t at : {size_t{0}, vocab / 2, vocab - 1}) {
          TestRow row = ModelRow(vocab, 0.1, 0, 1, 5);
          (on_train ? row.train : row.infer)[at] = bad;
          TokenDrift drift;
          RowScratch scratch;
          const std::string want =
              std::string(on_train ? "train" : "infer") + " logits[" + std::to_string(at) + "] is";
          const Result<> simd =
              MeasureRowSimd(PairOf(row), AllTokenSlots(), BestTarget(), &scratch, &drift);
          ASSERT_FALSE(simd.has_value());
          EXPECT_EQ(simd.error().message().find(want), 0u) << simd.error().message();
          EXPECT_EQ(simd.error().code(), ErrorCode::kBrokenEvidence);
          EXPECT_FALSE(MeasureRowReference(PairOf(row), AllTokenSlots(), &drift).has_value());
          EXPECT_TRUE(drift.known.none());
        }
      }
    }
  }
}

TEST(Backends, RefuseRowsThatCannotBeCompared) {
  TestRow row = ModelRow(100, 0.1, 0, 1, 5);
  TokenDrift drift;
  RowScratch scratch;
  const auto message = [&](const RowPair& pair) {
    const Result<> status = MeasureRowSimd(pair, AllTokenSlots(), BestTarget(), &scratch, &drift);
    return status ? std::string() : status.error().message();
  };
  RowPair pair = PairOf(row);
  pair.vocab = 0;
  EXPECT_NE(message(pair).find("vocabulary is empty"), std::string::npos);
  pair = PairOf(row);
  pair.train_dtype = DType::kI8;
  EXPECT_NE(message(pair).find("dtype I8"), std::string::npos);
  EXPECT_NE(message(PairOf(row, 0)).find("temperature 0"), std::string::npos);
  EXPECT_NE(message(PairOf(row, 1, 100)).find("outside the vocabulary"), std::string::npos);
  row.train[5] = row.infer[5] = -kInf;
  EXPECT_NE(message(PairOf(row, 1, 5)).find("masked"), std::string::npos);
  row.train.assign(100, -kInf);
  EXPECT_NE(message(PairOf(row)).find("all -inf"), std::string::npos);
}

TEST(Backends, AgreeOnTopTokensMarginsAndRanksWithTiesByIndex) {
  std::mt19937_64 random(4);
  for (const size_t vocab : std::initializer_list<size_t>{1, 3, 9, 10, 64, 300, 5000}) {
    for (const int levels : {1, 2, 5, 40, 100000}) {
      TestRow row;
      for (size_t i = 0; i < vocab; ++i) {
        row.train.push_back(0.25f * static_cast<float>(random() % static_cast<uint64_t>(levels)));
        row.infer.push_back(0.25f * static_cast<float>(random() % static_cast<uint64_t>(levels)));
      }
      const auto token = static_cast<int32_t>(random() % vocab);
      const TokenDrift want = Reference(PairOf(row, 1, token));
      const TokenDrift got = Simd(PairOf(row, 1, token));
      EXPECT_EQ(got.argmax, want.argmax);
      for (const char* name : {"top1_overlap", "top5_overlap", "top10_overlap", "margin",
                               "train_margin", "rank", "train_rank"}) {
        EXPECT_EQ(Value(got, name), Value(want, name)) << name << " V=" << vocab << " " << levels;
      }
      const auto first = std::max_element(row.train.begin(), row.train.end());
      EXPECT_EQ(got.argmax[kTrain], first - row.train.begin());
    }
  }
}

TEST(Backends, TokenQuantitiesFollowFromTheLogProbs) {
  for (const double sharpen : {1.0, 2.5}) {
    const TestRow row = ModelRow(4000, 1e-2, 0, sharpen, 21);
    for (const int32_t token : {0, 17, 3999, Reference(PairOf(row)).argmax[kTrain]}) {
      const TokenDrift want = Reference(PairOf(row, 1, token));
      const TokenDrift got = Simd(PairOf(row, 1, token));
      for (const char* name : {"log_ratio", "k1", "k2", "k3", "prob_gap", "w_log_w"}) {
        EXPECT_NEAR(Value(got, name), Value(want, name),
                    1e-6 * std::fabs(Value(want, name)) + 1e-13)
            << name << " token " << token;
      }
      EXPECT_NEAR(got.confidence[kTrain], want.confidence[kTrain], 1e-6);
      EXPECT_NEAR(got.confidence[kInfer], want.confidence[kInfer], 1e-6);
    }
  }
}

}  // namespace
}  // namespace kcc
