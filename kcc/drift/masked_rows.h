// For tests: rows whose sides mask tokens, each by constants of its own, and what a backend must
// say of them. Case `seed` is the same everywhere: masked_rows_test.cc takes a few thousand,
// bench/drift_search.cc a million.
//
// A mask constant is the lowest number of the format, -1e30 ... -1e3 or -inf. It may stand on one
// side alone, on both, or as two different ones; on one id, a few, half of them, all but a few, the
// padding at the end, or the likeliest tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/drift/row_truth.h"

namespace kcc {

struct MaskedCase {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint8_t> stored_train;
  std::vector<uint8_t> stored_infer;
  std::vector<float> train;  // the same values
  std::vector<float> infer;
  double temperature = 1;
  int32_t token = 0;
  bool costly = false;  // js and hellinger are to be compared

  std::map<std::string, double> Truth() const {
    return RowTruth(train, infer, temperature, costly, token);
  }
};

// The masks that a format can hold.
inline std::vector<float> MaskConstants(DType dtype) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  switch (dtype) {
    case DType::kF16:
      return {-kInf, -65504.0f, -10000.0f, -1000.0f};
    case DType::kF8E4M3:
      return {-448.0f, -240.0f};
    case DType::kF8E5M2:
      return {-kInf, -57344.0f, -10240.0f, -448.0f};
    default:
      return {-kInf,     dtype == DType::kF32 ? -3.4028234663852886e38f : -3.3895313892515355e38f,
              -1e30f,    -1e20f,
              -1e9f,     -65504.0f,
              -10000.0f, -1000.0f};
  }
}

inline void StoreLogits(DType dtype, std::vector<float>* row, std::vector<uint8_t>* bytes) {
  const auto put = [&](const auto& bits) {
    const auto* from = reinterpret_cast<const uint8_t*>(&bits);
    bytes->insert(bytes->end(), from, from + sizeof(bits));
  };
  for (float& z : *row) {
    switch (dtype) {
      case DType::kF16:
        put(FloatToF16(z));
        z = F16ToFloat(FloatToF16(z));
        break;
      case DType::kBF16:
        put(FloatToBF16(z));
        z = BF16ToFloat(FloatToBF16(z));
        break;
      case DType::kF8E4M3:
        put(FloatToF8E4M3(z));
        z = F8E4M3ToFloat(FloatToF8E4M3(z));
        break;
      case DType::kF8E5M2:
        put(FloatToF8E5M2(z));
        z = F8E5M2ToFloat(FloatToF8E5M2(z));
        break;
      default:
        put(z);
    }
  }
}

class MaskedCaseMaker {
 public:
  explicit MaskedCaseMaker(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 1) {
    made_.name = "case " + std::to_string(seed);
  }

  MaskedCase Make() {
    constexpr DType kFormats[] = {DType::kF32,  DType::kF32, DType::kF32,    DType::kBF16,
                                  DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2};
    made_.dtype = kFormats[Below(8)];
    made_.costly = Below(8) == 0;
    MakeLogits();
    const size_t groups = 1 + Below(3);
    for (size_t group = 0; group < groups; ++group) Mask();
    Unmask(&made_.train);
    Unmask(&made_.infer);
    StoreLogits(made_.dtype, &made_.train, &made_.stored_train);
    StoreLogits(made_.dtype, &made_.infer, &made_.stored_infer);
    constexpr double kTemperatures[] = {1, 1, 1, 1, 0.3, 0.7, 1.3, 100};
    made_.temperature = kTemperatures[Below(8)];
    do {
      made_.token = static_cast<int32_t>(Below(Vocab()));
    } while (IsMasked(made_.train) && IsMasked(made_.infer));
    made_.name += ", " + std::string(DTypeName(made_.dtype)) + ", V=" + std::to_string(Vocab()) +
                  ", T=" + std::to_string(made_.temperature);
    return made_;
  }

 private:
  size_t Vocab() const { return made_.train.size(); }
  size_t Below(size_t count) { return random_() % count; }
  double Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  bool IsMasked(const std::vector<float>& row) const {
    return std::isinf(row[static_cast<size_t>(made_.token)]);
  }

  void MakeLogits() {
    const size_t kind = Below(200);
    const size_t vocab = kind < 50    ? 2 + Below(40)
                         : kind < 195 ? 64 + Below(70)
                         : kind < 199 ? 256 + Below(100)
                                      : 2000 + Below(300);
    constexpr double kShifts[] = {0, 0, 0, 0, 3, -0.7, 40, 1000};
    const double shift = kShifts[Below(8)];
    const double sigma = std::pow(10.0, -4 + 5 * Uniform());
    // Drawn one by one: compilers differ in the order in which they evaluate arguments.
    const double scale = 0.3 + 2 * Uniform();
    const uint64_t row_seed = random_();
    TestRow row = ModelRow(vocab, sigma, shift, scale, row_seed);
    if (Below(8) == 0) {
      for (float& z : row.train) z += 1000;
      for (float& z : row.infer) z += 1000;
    }
    made_.train = std::move(row.train);
    made_.infer = std::move(row.infer);
  }

  std::vector<size_t> MaskedIds() {
    std::vector<size_t> ids;
    const size_t kind = Below(6);
    const size_t few = 1 + Below(8);
    if (kind == 0) {
      ids.push_back(Below(Vocab()));
    } else if (kind == 1) {
      for (size_t i = 0; i < few; ++i) ids.push_back(Below(Vocab()));
    } else if (kind == 2) {
      for (size_t i = 0; i < Vocab(); ++i) {
        if (Below(2) == 0) ids.push_back(i);
      }
    } else if (kind == 3) {
      const size_t kept = Below(Vocab());
      for (size_t i = 0; i < Vocab(); ++i) {
        if ((i + Vocab() - kept) % Vocab() >= few) ids.push_back(i);
      }
    } else if (kind == 4) {
      for (size_t i = Vocab() - std::min(few * 4, Vocab()); i < Vocab(); ++i) ids.push_back(i);
    } else {
      float top = made_.train[0];
      for (const float z : made_.train) top = std::max(top, z);
      for (size_t i = 0; i < Vocab(); ++i) {
        if (made_.train[i] >= top - static_cast<float>(few)) ids.push_back(i);
      }
    }
    return ids;
  }

  void Mask() {
    const std::vector<float> constants = MaskConstants(made_.dtype);
    const float of_train = constants[Below(constants.size())];
    const float of_infer = Below(2) == 0 ? of_train : constants[Below(constants.size())];
    const size_t sides = Below(3);
    for (const size_t i : MaskedIds()) {
      if (sides != 1) made_.train[i] = of_train;
      if (sides != 0) made_.infer[i] = of_infer;
    }
  }

  // A side that is -inf throughout is no distribution.
  void Unmask(std::vector<float>* row) {
    for (const float z : *row) {
      if (std::isfinite(z)) return;
    }
    (*row)[Below(Vocab())] = 1.5f;
  }

  std::mt19937_64 random_;
  MaskedCase made_;
};

// How far values may lie from the truth, relatively: KL and its kin from KL = 1e-12 on; infer's
// entropy, which the fast backend finds as a difference; the l2 norms of differences.
struct MaskedBands {
  double divergence = 1e-7;
  double entropy = 2e-6;
  double l2 = 2e-6;
};
// And entropies absolutely, in nats: that of an all but certain token is what rounding leaves.
inline constexpr double kEntropyError = 1e-11;
// The fast backend's (simd.h): at other temperatures a log-ratio is rounded, and so the more the
// larger it is.
inline MaskedBands FastBands(double temperature) {
  return {temperature == 1 ? 4e-6 : 3e-5, 4e-6, 1.6e-5};
}

// Empty, or what of a measured row is wrong, value(name) being what was measured: beyond the bands,
// negative, not a number, or against Pinsker's inequality.
template <class Value>
std::string FaultOf(const MaskedCase& made, const std::map<std::string, double>& truth,
                    const MaskedBands& bands, const Value& value) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  // What 113 bits leave of sums of numbers near 1.
  constexpr double kTruthError = 1e-30;
  std::string fault;
  const auto say = [&](const std::string& quantity, double got, double want) {
    char text[160];
    std::snprintf(text, sizeof text, " %s %.17g, truth %.17g;", quantity.c_str(), got, want);
    fault += text;
  };
  const double kl = truth.at("kl");
  const double tv = truth.at("tv");
  const double band = kl >= 1e-12 ? bands.divergence : kl >= 1e-14 ? 1e-4 : kInf;
  const double entropies =
      truth.at("entropy") + truth.at("train_entropy") + std::min(40.0, truth.at("reverse_kl"));
  for (const auto& [quantity, want] : truth) {
    const double got = value(quantity);
    double allowed = 2e-6 * std::fabs(want) + kTruthError;
    if (quantity == "entropy_gap") {
      allowed =
          bands.entropy * (want + 40 * tv * std::max(1.0, 1 / made.temperature)) + kEntropyError;
    } else if (quantity == "entropy") {
      allowed = bands.entropy * entropies + kEntropyError;
    } else if (quantity.ends_with("logit_l2")) {
      allowed = bands.l2 * want;
    } else if (quantity == "log_ratio") {
      allowed = bands.entropy * (std::fabs(want) + tv) + 1e-13;
    } else if (quantity == "train_entropy") {
      allowed = bands.entropy * want + kTruthError;
    } else if (quantity.find("logit") == std::string::npos) {
      if (!(got >= 0)) say(quantity, got, want);
      allowed = (band == kInf ? 1e-14 + 1e-4 * want : band * want) + kTruthError;
    }
    // Where even logarithms leave the doubles, so may the value.
    const bool overflows = want > 1e300 && got > 1e299;
    const bool same = got == want || std::fabs(got - want) <= allowed;
    if (std::isnan(got) || (!overflows && !same)) say(quantity, got, want);
  }
  const double pinsker = std::sqrt(0.5 * std::min(value("kl"), value("reverse_kl")));
  if (!(value("tv") <= pinsker * (1 + 1e-5) + 1e-9)) say("tv", value("tv"), pinsker);
  return fault.empty() ? fault : made.name + ":" + fault;
}

}  // namespace kcc
