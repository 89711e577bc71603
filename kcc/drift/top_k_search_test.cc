// A search for lists whose intervals are wrong or wide: random pairs of full rows, lists made of
// them as kernels would, and every interval against the value of the full rows and against the
// formulas of docs/math.md B.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kcc/drift/row_quantities.h"
#include "kcc/drift/simd.h"
#include "kcc/drift/top_k.h"
#include "kcc/drift/top_list_cases.h"

namespace kcc {
namespace {

using namespace list_cases;

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
    const double scale = std::exp2(std::ceil(std::log2(std::max(1.0, 1 / test.temperature))));
    return test.pair.rounding * (scale + std::fabs(logprob));
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
