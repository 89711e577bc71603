// A search for lists whose intervals are wrong or wide: random pairs of full rows, lists made of
// them as kernels would, and every interval against the value of the full rows and against the
// formulas of docs/math.md B.
//
// The rows have what real ones have and smooth random ones lack: logits on a coarse grid, so that
// tokens tie at any rank, also across the end of a list and in any order; temperatures; masked
// tokens; lists of unequal length; log-probs of a float32 kernel or with few digits; a sampled
// token that no list holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "kcc/drift/row_quantities.h"
#include "kcc/drift/simd.h"
#include "kcc/drift/top_k.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLn2 = 0.6931471805599453;
constexpr size_t kSides[] = {0, 1};  // train, infer
constexpr size_t kCuts[] = {1, 5, 10};

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

bool Chance(double probability, std::mt19937_64* random) {
  return std::uniform_real_distribution<double>()(*random) < probability;
}

// Logits stay below 16 in magnitude, for which the default rounding is stated.
void FillRows(Case* test, std::mt19937_64* random) {
  std::normal_distribution<double> normal;
  const auto vocab = OneOf<size_t>({1, 2, 3, 4, 6, 9, 14, 23, 40, 90}, random);
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
    const double z = scale * normal(*random);
    test->logits[0].push_back(store(z, steps[0]));
    test->logits[1].push_back(store(z + sigma * normal(*random), steps[1]));
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

std::vector<float> LogProbs(const Case& test, size_t side) {
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
void FillList(Case* test, size_t side, const std::vector<float>& logprobs, bool by_id,
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

Case RandomCase(uint64_t seed) {
  std::mt19937_64 random(seed);
  Case test;
  FillRows(&test, &random);
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

// What docs/math.md B says of two lists, from the listed log-probs widened by their rounding.
struct Formulas {
  struct Side {
    std::map<int32_t, double> known;  // id: log-prob
    double left_lo = 1;               // mass of what is not known on both sides
    double left_hi = 1;
    double last = 0;
  };
  const Case& test;
  Side sides[2];
  std::vector<int32_t> both;

  explicit Formulas(const Case& of) : test(of) {
    for (const size_t side : kSides) {
      for (size_t i = 0; i < test.ids[side].size(); ++i) {
        sides[side].known[test.ids[side][i]] = test.logprobs[side][i];
      }
      const double token = side == 0 ? test.pair.train_logprob : test.pair.infer_logprob;
      if (test.pair.token >= 0 && !std::isnan(token)) sides[side].known[test.pair.token] = token;
    }
    for (const auto& [id, logprob] : sides[0].known) {
      if (sides[1].known.count(id)) both.push_back(id);
    }
    for (const size_t side : kSides) {
      double slack = 0;
      for (const auto& [id, logprob] : sides[side].known) slack += Hi(side, id) - Lo(side, id);
      for (const int32_t id : both) {
        sides[side].left_lo -= Hi(side, id);
        sides[side].left_hi -= Lo(side, id);
      }
      sides[side].left_lo = std::max(0.0, sides[side].left_lo - slack);
      sides[side].left_hi += slack;
    }
  }

  double Error(double logprob) const {
    return test.pair.rounding * (std::max(1.0, 1 / test.temperature) + std::fabs(logprob));
  }
  double Lo(size_t side, int32_t id) const {
    const double logprob = sides[side].known.at(id);
    return logprob == -kInf ? 0 : std::exp(logprob - Error(logprob));
  }
  double Hi(size_t side, int32_t id) const {
    const double logprob = sides[side].known.at(id);
    return logprob == -kInf ? 0 : std::min(1.0, std::exp(logprob + Error(logprob)));
  }

  static double JsOverlap(double p, double q) {
    const double m = p + q;
    return 0.5 * ((p > 0 ? p * std::log(m / p) : 0) + (q > 0 ? q * std::log(m / q) : 0));
  }
  template <class Overlap>
  double Upper(double most, Overlap overlap) const {
    double sum = 0;
    for (const int32_t id : both) sum += overlap(Lo(0, id), Lo(1, id));
    return std::max(0.0, most - sum);
  }
  // Data processing: the tokens known on both sides, and all others as one.
  template <class Term>
  double Lower(Term term) const {
    const auto nearest = [&](double p_lo, double p_hi, double q_lo, double q_hi) {
      return p_lo > q_hi ? term(p_lo, q_hi) : q_lo > p_hi ? term(p_hi, q_lo) : 0.0;
    };
    double sum = nearest(sides[0].left_lo, sides[0].left_hi, sides[1].left_lo, sides[1].left_hi);
    for (const int32_t id : both) sum += nearest(Lo(0, id), Hi(0, id), Lo(1, id), Hi(1, id));
    return sum;
  }
  // The span of the shared tokens' differences, less what rounding may have added.
  double Span() const {
    double low = kInf;
    double high = -kInf;
    for (const int32_t id : both) {
      const double p = sides[0].known.at(id);
      const double q = sides[1].known.at(id);
      if (p == -kInf || q == -kInf) continue;
      low = std::min(low, q - p + Error(p) + Error(q));
      high = std::max(high, q - p - Error(p) - Error(q));
    }
    return std::max(0.0, high - low);
  }
  // The k-th place of a list is decided by its log-probs: no tie there, seen or possible.
  bool Decides(size_t side, size_t k) const {
    const std::vector<float>& logprobs = test.logprobs[side];
    if (k > logprobs.size() || logprobs[k - 1] == -kInf) return false;
    if (k < logprobs.size()) return logprobs[k - 1] != logprobs[k];
    if (k == test.Vocab()) return true;
    if (k > 1 && logprobs[k - 1] == logprobs[k - 2]) return false;
    double unlisted = 1;
    for (const int32_t id : test.ids[side]) unlisted -= Lo(side, id);
    return unlisted < 0.999 * Lo(side, test.ids[side].back());
  }
};

class Search {
 public:
  void Try(uint64_t seed) {
    const Case test = RandomCase(seed);
    const RowPair row = test.Row();
    const Truth truth(test);
    TokenDrift drift;
    const auto measured = MeasureTopK(test.pair, AllTokenSlots(), &drift);
    ASSERT_TRUE(measured) << "seed " << seed << ": " << measured.error().message();
    for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
      if (!drift.known[slot] || !truth.Has(slot)) continue;
      const double value = truth.Of(slot);
      // What the definitions lose by cancellation; ranks and overlaps are exact.
      const double slack = std::isfinite(value) ? 1e-16 * (1 + std::fabs(value)) : 0;
      if (drift.lo[slot] <= value + slack && value - slack <= drift.hi[slot]) continue;
      Note("outside", slot, seed, drift, value);
    }
    CheckSimd(row, drift, seed);
    CheckWidths(test, drift, seed);
  }

  size_t Decided() const { return decided_; }

  // By what went wrong and slot: how often, and the first case.
  std::string Problems() const {
    std::string text;
    for (const auto& [what, found] : found_) {
      text += what + ": " + std::to_string(found.count) + " times, " + found.first + "\n";
    }
    return text;
  }

 private:
  struct Found {
    size_t count = 0;
    std::string first;
  };

  void Note(const std::string& what, size_t slot, uint64_t seed, const TokenDrift& drift,
            double against) {
    Found& found = found_[what + " " + SlotName(slot)];
    if (found.count++ > 0) return;
    found.first = "first seed " + std::to_string(seed) + ": [" + std::to_string(drift.lo[slot]) +
                  ", " + std::to_string(drift.hi[slot]) + "] against " + std::to_string(against);
  }

  // The vector backends rank as the reference does.
  void CheckSimd(const RowPair& row, const TokenDrift& drift, uint64_t seed) {
    SlotSet ranked;
    for (const char* name : {"top1_overlap", "top5_overlap", "top10_overlap", "rank", "train_rank",
                             "margin", "train_margin"}) {
      ranked.set(TokenSlot(name));
    }
    const auto targets = AvailableTargets();
    TokenDrift value;
    ASSERT_TRUE(MeasureRowSimd(row, ranked, targets[seed % targets.size()], &scratch_, &value));
    for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
      if (!drift.known[slot] || !value.known[slot]) continue;
      if (drift.lo[slot] <= value.lo[slot] && value.lo[slot] <= drift.hi[slot]) continue;
      Note("outside, by simd", slot, seed, drift, value.lo[slot]);
    }
  }

  void CheckWidths(const Case& test, const TokenDrift& drift, uint64_t seed) {
    const Formulas formulas(test);
    const auto at_most = [&](const char* name, double formula) {
      const size_t slot = TokenSlot(name);
      if (drift.hi[slot] <= formula * (1 + 1e-9) + 1e-11) return;
      Note("wider above", slot, seed, drift, formula);
    };
    const auto at_least = [&](const char* name, double formula) {
      const size_t slot = TokenSlot(name);
      if (drift.lo[slot] >= formula * (1 - 1e-9) - 1e-11) return;
      Note("wider below", slot, seed, drift, formula);
    };
    at_most("tv", formulas.Upper(1, [](double p, double q) { return std::min(p, q); }));
    at_most("hellinger", formulas.Upper(1, [](double p, double q) { return std::sqrt(p * q); }));
    at_most("js", formulas.Upper(kLn2, &Formulas::JsOverlap));
    at_least("tv", formulas.Lower([](double p, double q) { return std::fabs(p - q) / 2; }));
    at_least("kl", formulas.Lower(
                       [](double p, double q) { return p > 0 ? p * std::log(p / q) - p + q : q; }));
    at_least("chi2", formulas.Lower([](double p, double q) { return (p - q) * (p - q) / q; }));
    at_least("hellinger", formulas.Lower([](double p, double q) {
      return (std::sqrt(p) - std::sqrt(q)) * (std::sqrt(p) - std::sqrt(q)) / 2;
    }));
    at_least("js", formulas.Lower([](double p, double q) {
      return (p + q) / 2 * kLn2 - Formulas::JsOverlap(p, q);
    }));
    at_least("logit_span", formulas.Span());
    at_least("logit_linf", formulas.Span() * test.temperature / 2);
    at_least("logit_l2", formulas.Span() * test.temperature / std::sqrt(2.0));
    for (const size_t k : kCuts) {
      const size_t slot = TokenSlot("top" + std::to_string(k) + "_overlap");
      if (!formulas.Decides(0, k) || !formulas.Decides(1, k)) continue;
      ++decided_;
      if (drift.lo[slot] != drift.hi[slot]) Note("not exact", slot, seed, drift, drift.hi[slot]);
    }
  }

  RowScratch scratch_;
  std::map<std::string, Found> found_;
  size_t decided_ = 0;  // overlaps that the lists decide
};

void SearchCases(uint64_t first, uint64_t count) {
  Search search;
  for (uint64_t seed = first; seed < first + count && !testing::Test::HasFatalFailure(); ++seed) {
    search.Try(seed);
  }
  EXPECT_EQ(search.Problems(), "");
  EXPECT_GE(search.Decided(), count / 2);
}

TEST(TopKSearch, IntervalsHoldTheFullRowsValueAndAreNoWiderThanTheFormulas) {
  SearchCases(1, 20000);
}

// Run by the test drift_slow (ctest label slow).
TEST(TopKSearch, DISABLED_SlowIntervalsHoldTheFullRowsValueInAMillionCases) {
  SearchCases(1000000, 1000000);
}

}  // namespace
}  // namespace kcc
