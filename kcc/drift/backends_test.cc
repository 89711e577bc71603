// Both backends against the definitions in 113-bit arithmetic, against each other, and the vector
// targets against one another, bit by bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "kcc/drift/reference.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_truth.h"
#include "kcc/drift/simd.h"

namespace kcc {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

RowPair PairOf(const TestRow& row, double temperature = 1, int32_t token = 0) {
  RowPair pair;
  pair.train = row.train.data();
  pair.infer = row.infer.data();
  pair.vocab = row.train.size();
  pair.temperature = temperature;
  pair.token = token;
  return pair;
}

TokenDrift Simd(const RowPair& pair, Target target = BestTarget()) {
  static RowScratch scratch;
  TokenDrift drift;
  const Result<> status = MeasureRowSimd(pair, AllTokenSlots(), target, &scratch, &drift);
  EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().Format());
  return drift;
}

TokenDrift Reference(const RowPair& pair) {
  TokenDrift drift;
  const Result<> status = MeasureRowReference(pair, AllTokenSlots(), &drift);
  EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().Format());
  return drift;
}

double Value(const TokenDrift& drift, const std::string& name) {
  EXPECT_TRUE(drift.known[TokenSlot(name)]) << name;
  return drift.lo[TokenSlot(name)];
}

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

std::vector<TestRow> Rows() {
  std::vector<TestRow> rows;
  uint64_t seed = 1;
  for (const size_t vocab :
       std::initializer_list<size_t>{1, 2, 3, 17, 63, 64, 65, 200, 1000, 2048, 2049, 4097, 9000}) {
    for (const double sigma : {1e-7, 1e-5, 1e-3, 1e-2, 0.1, 1.0, 3.0, 10.0}) {
      for (const double sharpen : {1.0, 2.5}) {
        TestRow row = ModelRow(vocab, sigma, 0, sharpen, seed++);
        row.name = "V=" + std::to_string(vocab) + " sigma=" + std::to_string(sigma) +
                   " sharpen=" + std::to_string(sharpen);
        rows.push_back(row);
      }
    }
  }
  for (const double shift : {3.0, -0.7, 1e3, -1e5}) {
    TestRow row = ModelRow(3000, 1e-2, shift, 1, seed++);
    row.name = "shift=" + std::to_string(shift);
    rows.push_back(row);
    for (float& z : row.train) z += 1000;
    for (float& z : row.infer) z += 1000;
    row.name += " offset 1000";
    rows.push_back(row);
  }
  return rows;
}

// Rows in which one token has all but about `rest` of the mass.
std::vector<TestRow> PeakedRows() {
  std::vector<TestRow> rows;
  uint64_t seed = 1000;
  for (const double rest : {1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12}) {
    for (const double sigma : {1e-4, 1e-2, 0.3}) {
      for (const size_t vocab : std::initializer_list<size_t>{5, 100, 4500}) {
        TestRow row = ModelRow(vocab, sigma, 0, 1, seed++);
        double mass = 0;
        for (const float z : row.train) mass += std::exp(double{z});
        const size_t at = seed % vocab;
        const double d = double{row.infer[at]} - double{row.train[at]};
        row.train[at] = static_cast<float>(std::log(mass / rest));
        row.infer[at] = static_cast<float>(row.train[at] + d);
        row.name = "peaked V=" + std::to_string(vocab) + " 1-p=" + std::to_string(rest) +
                   " sigma=" + std::to_string(sigma);
        rows.push_back(row);
      }
    }
  }
  return rows;
}

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
