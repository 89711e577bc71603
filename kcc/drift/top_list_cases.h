// Random pairs of rows with the lists that kernels would make of them, and the truth of the full
// rows: what the searches over partial evidence share.
//
// The rows have what real ones have and smooth random ones lack: logits on a coarse grid, so that
// tokens tie at any rank, also across the end of a list and in any order; temperatures; masked
// tokens; lists of unequal length; log-probs of a float32 kernel or with few digits; a sampled
// token that no list holds; with RowKind::kHeavy, tails far heavier than normal ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kcc/drift/top_k.h"

namespace kcc::list_cases {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kLn2 = 0.6931471805599453;
inline constexpr size_t kSides[] = {0, 1};  // train, infer
inline constexpr size_t kCuts[] = {1, 5, 10};

enum class RowKind { kNormal, kHeavy };
enum class Recorded { kFloat, kFloatKernel, kFourDigits };

struct Case {
  std::vector<float> logits[2];
  std::vector<int32_t> ids[2];
  std::vector<float> logprobs[2];
  double temperature = 1;
  Recorded recorded = Recorded::kFloat;
  TopListPair pair;

  size_t Vocab() const { return logits[0].size(); }
  RowPair Row() const {
    RowPair row;
    row.train = logits[0].data();
    row.infer = logits[1].data();
    row.vocab = Vocab();
    row.temperature = temperature;
    row.token = pair.token;
    return row;
  }
};

template <class T>
T OneOf(std::initializer_list<T> values, std::mt19937_64* random) {
  return values.begin()[(*random)() % values.size()];
}

inline bool Chance(double probability, std::mt19937_64* random) {
  return std::uniform_real_distribution<double>()(*random) < probability;
}

// Logits stay below 16 in magnitude, for which the default rounding is stated.
inline void FillRows(Case* test, RowKind kind, std::mt19937_64* random) {
  std::normal_distribution<double> normal;
  std::cauchy_distribution<double> cauchy;
  const bool heavy = kind == RowKind::kHeavy;
  const auto vocab = heavy ? OneOf<size_t>({5, 12, 40, 130, 400}, random)
                           : OneOf<size_t>({1, 2, 3, 4, 6, 9, 14, 23, 40, 90}, random);
  const double scale = OneOf({0.2, 1.0, 2.5, 6.0}, random);
  const double sigma = OneOf({0.0, 1e-4, 0.03, 0.3, 2.0}, random);
  const double steps[2] = {OneOf({0.0, 0x1p-12, 0x1p-4, 0.125, 0.5, 1.0, 4.0}, random),
                           OneOf({0.0, 0x1p-12, 0x1p-4, 0.125, 0.5, 1.0, 4.0}, random)};
  const bool near_ties = Chance(0.2, random);
  const bool masked = Chance(0.2, random);
  const auto store = [&](double z, double step) {
    z = std::clamp(z, -15.9, 15.9);
    if (step > 0) z = std::nearbyint(z / step) * step;
    auto stored = static_cast<float>(z);
    if (near_ties && Chance(0.3, random)) stored = std::nextafter(stored, 16.0f);
    return stored;
  };
  for (size_t i = 0; i < vocab; ++i) {
    const double z = scale * (heavy ? cauchy(*random) : normal(*random));
    test->logits[0].push_back(store(z, steps[0]));
    const double noise = heavy ? cauchy(*random) : normal(*random);
    test->logits[1].push_back(store(z + sigma * noise, steps[1]));
  }
  if (!masked) return;
  const size_t kept = (*random)() % vocab;
  for (size_t i = 0; i < vocab; ++i) {
    const auto where = (*random)() % 10;
    if (i == kept || where > 3) continue;
    if (where != 1) test->logits[0][i] = -static_cast<float>(kInf);
    if (where != 2) test->logits[1][i] = -static_cast<float>(kInf);
  }
}

inline std::vector<float> LogProbs(const Case& test, size_t side) {
  const std::vector<float>& logits = test.logits[side];
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float z : logits) sum += std::exp((z - top) / test.temperature);
  std::vector<float> logprobs;
  for (const float z : logits) {
    double logprob = (z - top) / test.temperature - std::log(sum);
    if (test.recorded == Recorded::kFloatKernel) {
      const auto tau = static_cast<float>(test.temperature);
      logprob = (z / tau - static_cast<float>(top) / tau) - static_cast<float>(std::log(sum));
    }
    if (test.recorded == Recorded::kFourDigits && logprob > -kInf) {
      logprob = std::nearbyint(logprob * 1e4) * 1e-4;
    }
    logprobs.push_back(std::min(0.0f, static_cast<float>(logprob)));
  }
  return logprobs;
}

// The k likeliest tokens in the order of their logits; equal ones in any order, or by id.
inline void FillList(Case* test, size_t side, const std::vector<float>& logprobs, bool by_id,
                     std::mt19937_64* random) {
  const std::vector<float>& logits = test->logits[side];
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  if (!by_id) std::shuffle(order.begin(), order.end(), *random);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  const auto length = OneOf<size_t>({1, 2, 3, 4, 5, 6, 8, 10, 11, 16, 24}, random);
  order.resize(std::min(length, order.size()));
  const bool without_masked = Chance(0.5, random);
  for (const int32_t id : order) {
    const auto at = static_cast<size_t>(id);
    if (without_masked && logits[at] == -kInf) break;
    test->ids[side].push_back(id);
    test->logprobs[side].push_back(logprobs[at]);
  }
}

inline Case RandomCase(uint64_t seed, RowKind kind = RowKind::kNormal) {
  std::mt19937_64 random(seed);
  Case test;
  FillRows(&test, kind, &random);
  test.temperature = OneOf({0.1, 0.5, 0.7, 1.0, 1.0, 2.0, 5.0}, &random);
  test.recorded = OneOf({Recorded::kFloat, Recorded::kFloatKernel, Recorded::kFourDigits}, &random);
  const bool by_id = Chance(0.3, &random);
  std::vector<float> logprobs[2];
  for (const size_t side : kSides) {
    logprobs[side] = LogProbs(test, side);
    FillList(&test, side, logprobs[side], by_id, &random);
  }
  test.pair.train = {test.ids[0], test.logprobs[0]};
  test.pair.infer = {test.ids[1], test.logprobs[1]};
  test.pair.vocab = test.Vocab();
  test.pair.temperature = test.temperature;
  if (test.recorded == Recorded::kFourDigits) test.pair.rounding = 5.1e-5;
  const size_t token = random() % test.Vocab();
  const bool possible = test.logits[0][token] > -kInf || test.logits[1][token] > -kInf;
  if (possible && Chance(0.9, &random)) {
    test.pair.token = static_cast<int32_t>(token);
    if (Chance(0.6, &random)) test.pair.train_logprob = logprobs[0][token];
    if (Chance(0.6, &random)) test.pair.infer_logprob = logprobs[1][token];
    // Neither kernel can have sampled it: refused elsewhere.
    if (test.pair.train_logprob == -kInf && test.pair.infer_logprob == -kInf) test.pair.token = -1;
  }
  return test;
}

// The quantities of the full rows by their definitions, in the widest arithmetic at hand. Masked
// tokens are left out, a token that one side alone has makes what divides by it infinite.
class Truth {
 public:
  explicit Truth(const Case& test) : test_(test) {
    for (const size_t side : kSides) Normalise(side);
    using Wide = long double;
    Wide kl = 0, reverse_kl = 0, tv = 0, overlap = 0, js = 0, chi2 = 0, reverse_chi2 = 0;
    Wide low = kInf, high = -kInf, sum = 0, squares = 0;
    size_t entries = 0;
    for (size_t i = 0; i < test.Vocab(); ++i) {
      const Wide a = logprobs_[0][i], b = logprobs_[1][i];
      if (a == -kInf && b == -kInf) continue;
      ++entries;
      const Wide p = std::exp(a), q = std::exp(b);
      kl += a == -kInf ? 0 : p * (a - b);
      reverse_kl += b == -kInf ? 0 : q * (b - a);
      chi2 += b == -kInf ? Wide{kInf} : (p - q) * (p - q) / q;
      reverse_chi2 += a == -kInf ? Wide{kInf} : (p - q) * (p - q) / p;
      tv += std::fabs(p - q) / 2;
      overlap += (std::sqrt(p) - std::sqrt(q)) * (std::sqrt(p) - std::sqrt(q)) / 2;
      js += (p > 0 ? p * std::log(2 * p / (p + q)) / 2 : 0) +
            (q > 0 ? q * std::log(2 * q / (p + q)) / 2 : 0);
      const Wide difference = static_cast<Wide>(test.logits[1][i]) - test.logits[0][i];
      low = std::min(low, difference);
      high = std::max(high, difference);
      sum += difference;
      squares += difference * difference;
    }
    const Wide span = high - low;
    const Wide centred = squares - sum * sum / static_cast<Wide>(entries);
    Set("kl", kl);
    Set("reverse_kl", reverse_kl);
    Set("chi2", chi2);
    Set("reverse_chi2", reverse_chi2);
    Set("tv", tv);
    Set("hellinger", overlap);
    Set("js", js);
    Set("logit_span", span / test.temperature);
    Set("logit_linf", span / 2);
    Set("logit_l2", std::isinf(span) ? span : std::sqrt(std::max(Wide{0}, centred)));
    Set("train_entropy", Entropy(0));
    Set("entropy", Entropy(1));
    Set("entropy_gap", std::fabs(Entropy(0) - Entropy(1)));
    Set("train_margin", Margin(0));
    Set("margin", Margin(1));
    for (const size_t k : kCuts) Set("top" + std::to_string(k) + "_overlap", Shared(k));
    if (test.pair.token < 0) return;
    Set("train_rank", Rank(0));
    Set("rank", Rank(1));
  }

  bool Has(size_t slot) const { return value_.count(slot) > 0; }
  double Of(size_t slot) const { return value_.at(slot); }

 private:
  void Set(const std::string& name, long double value) {
    value_[TokenSlot(name)] = static_cast<double>(value);
  }

  void Normalise(size_t side) {
    const std::vector<float>& logits = test_.logits[side];
    const long double top = *std::max_element(logits.begin(), logits.end());
    long double sum = 0;
    for (const float z : logits) sum += std::exp((z - top) / test_.temperature);
    for (size_t i = 0; i < logits.size(); ++i) {
      logprobs_[side].push_back((logits[i] - top) / test_.temperature - std::log(sum));
      if (logits[i] > -kInf) order_[side].push_back(i);
    }
    std::stable_sort(order_[side].begin(), order_[side].end(),
                     [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  }
  long double Entropy(size_t side) const {
    long double sum = 0;
    for (const size_t i : order_[side]) sum -= std::exp(logprobs_[side][i]) * logprobs_[side][i];
    return sum;
  }
  double Margin(size_t side) const {
    const auto& order = order_[side];
    if (order.size() < 2) return kInf;
    return static_cast<double>(test_.logits[side][order[0]]) - test_.logits[side][order[1]];
  }
  double Shared(size_t k) const {
    const size_t sizes[2] = {std::min(k, order_[0].size()), std::min(k, order_[1].size())};
    double shared = 0;
    for (size_t i = 0; i < sizes[0]; ++i) {
      for (size_t j = 0; j < sizes[1]; ++j) shared += order_[0][i] == order_[1][j] ? 1 : 0;
    }
    return shared / static_cast<double>(std::max(sizes[0], sizes[1]));
  }
  double Rank(size_t side) const {
    const auto token = static_cast<size_t>(test_.pair.token);
    const auto at = std::find(order_[side].begin(), order_[side].end(), token);
    double rank = static_cast<double>(at - order_[side].begin());
    if (at != order_[side].end()) return rank;
    // Impossible here: after all that can occur, by id among those the other side has.
    for (size_t i = 0; i < token; ++i) {
      rank += test_.logits[side][i] == -kInf && test_.logits[1 - side][i] > -kInf ? 1 : 0;
    }
    return rank;
  }

  const Case& test_;
  std::vector<long double> logprobs_[2];
  std::vector<size_t> order_[2];  // of the tokens that can occur
  std::map<size_t, double> value_;
};

}  // namespace kcc::list_cases
