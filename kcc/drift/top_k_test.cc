#include "kcc/drift/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "kcc/drift/reference.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_truth.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Lists {
  std::vector<int32_t> ids[2];
  std::vector<float> logprobs[2];

  TopListPair Pair(size_t vocab) const {
    TopListPair pair;
    pair.train = {ids[0], logprobs[0]};
    pair.infer = {ids[1], logprobs[1]};
    pair.vocab = vocab;
    return pair;
  }
};

std::vector<double> LogProbs(const std::vector<float>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float z : logits) sum += std::exp(z - top);
  std::vector<double> logprobs;
  for (const float z : logits) logprobs.push_back(z - top - std::log(sum));
  return logprobs;
}

Lists ListsOf(const TestRow& row, size_t k) {
  Lists lists;
  for (const int side : {0, 1}) {
    const std::vector<double> logprobs = LogProbs(side == 0 ? row.train : row.infer);
    std::vector<int32_t> order(logprobs.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logprobs[static_cast<size_t>(a)] > logprobs[static_cast<size_t>(b)];
    });
    order.resize(std::min(k, order.size()));
    lists.ids[side] = order;
    for (const int32_t id : order) {
      lists.logprobs[side].push_back(static_cast<float>(logprobs[static_cast<size_t>(id)]));
    }
  }
  return lists;
}

TEST(TopK, IntervalsHoldTheValueOfFullLogits) {
  uint64_t seed = 1;
  for (const size_t vocab : std::initializer_list<size_t>{1, 2, 5, 40, 64, 300, 3000}) {
    for (const double sigma : {0.0, 1e-3, 0.1, 1.0, 4.0}) {
      for (const double sharpen : {0.2, 1.0, 2.0}) {
        const TestRow row = ModelRow(vocab, sigma, 0, sharpen, seed++);
        RowPair full;
        full.train = row.train.data();
        full.infer = row.infer.data();
        full.vocab = vocab;
        full.token = static_cast<int32_t>(seed % vocab);
        TokenDrift truth;
        ASSERT_TRUE(MeasureRowReference(full, AllTokenSlots(), &truth));
        for (const size_t k : std::initializer_list<size_t>{1, 2, 3, 5, 9, 10, 20, 33, 64}) {
          for (const bool with_token : {false, true}) {
            const Lists lists = ListsOf(row, k);
            TopListPair pair = lists.Pair(vocab);
            pair.token = full.token;
            if (with_token) {
              const auto at = static_cast<size_t>(full.token);
              pair.train_logprob = static_cast<float>(LogProbs(row.train)[at]);
              pair.infer_logprob = static_cast<float>(LogProbs(row.infer)[at]);
            }
            TokenDrift drift;
            ASSERT_TRUE(MeasureTopK(pair, AllTokenSlots() & ~SampledTokenSlots(), &drift));
            for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
              if (!drift.known[slot]) continue;
              EXPECT_LE(drift.lo[slot], truth.lo[slot])
                  << SlotName(slot) << " V=" << vocab << " k=" << k << " sigma=" << sigma;
              EXPECT_GE(drift.hi[slot], truth.lo[slot])
                  << SlotName(slot) << " V=" << vocab << " k=" << k << " sigma=" << sigma;
            }
          }
        }
      }
    }
  }
}

// The must-show of partial evidence: every quantity, k = 1 to 64.
TEST(TopK, IntervalsHoldTheValueForEveryLengthUpTo64) {
  for (uint64_t seed = 100; seed < 118; ++seed) {
    const size_t vocab = seed % 3 == 0 ? 70 : 900;
    const double sigma = seed % 2 == 0 ? 0.05 : 1.5;
    const TestRow row = ModelRow(vocab, sigma, 0, seed % 5 == 0 ? 0.3 : 1.5, seed);
    RowPair full;
    full.train = row.train.data();
    full.infer = row.infer.data();
    full.vocab = vocab;
    full.token = static_cast<int32_t>(seed % vocab);
    TokenDrift truth;
    ASSERT_TRUE(MeasureRowReference(full, AllTokenSlots(), &truth));
    for (size_t k = 1; k <= 64; ++k) {
      const Lists lists = ListsOf(row, k);
      TopListPair pair = lists.Pair(vocab);
      pair.token = full.token;
      TokenDrift drift;
      ASSERT_TRUE(MeasureTopK(pair, AllTokenSlots() & ~SampledTokenSlots(), &drift));
      size_t known = 0;
      for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
        if (!drift.known[slot]) continue;
        ++known;
        EXPECT_LE(drift.lo[slot], truth.lo[slot]) << SlotName(slot) << " k=" << k << " " << seed;
        EXPECT_GE(drift.hi[slot], truth.lo[slot]) << SlotName(slot) << " k=" << k << " " << seed;
      }
      EXPECT_GE(known, 18u);
    }
  }
}

// A distribution over a whole vocabulary that agrees with a list: listed tokens as listed, no other
// above the cap, and everything adds up to 1.
struct Completion {
  std::vector<double> p;

  static Completion Of(const std::vector<int32_t>& ids, const std::vector<float>& logprobs,
                       size_t vocab) {
    Completion c;
    c.p.assign(vocab, -1);  // not decided
    for (size_t i = 0; i < ids.size(); ++i) {
      c.p[static_cast<size_t>(ids[i])] = std::exp(static_cast<double>(logprobs[i]));
    }
    return c;
  }
  double Left() const {
    double sum = 0;
    for (const double x : p) sum += std::max(0.0, x);
    return 1 - sum;
  }
  bool Open(size_t id) const { return p[id] < 0; }
  // Gives the tokens in order as much of `mass` as the cap allows; the rest of the open ones get 0.
  void Spread(double mass, double cap, const std::vector<size_t>& order) {
    for (const size_t id : order) {
      if (!Open(id)) continue;
      p[id] = std::min(mass, cap);
      mass -= p[id];
    }
    EXPECT_LE(std::fabs(mass), 1e-12) << "the vocabulary is too small for this completion";
  }
};

double TvOf(const Completion& a, const Completion& b) {
  double sum = 0;
  for (size_t i = 0; i < a.p.size(); ++i) sum += std::fabs(a.p[i] - b.p[i]);
  return sum / 2;
}

double KlOf(const Completion& a, const Completion& b) {
  double sum = 0;
  for (size_t i = 0; i < a.p.size(); ++i) {
    if (a.p[i] > 0) sum += a.p[i] * std::log(a.p[i] / b.p[i]) - a.p[i] + b.p[i];
    if (a.p[i] == 0) sum += b.p[i];
  }
  return sum;
}

double HellingerOf(const Completion& a, const Completion& b) {
  double sum = 0;
  for (size_t i = 0; i < a.p.size(); ++i) sum += std::sqrt(a.p[i] * b.p[i]);
  return 1 - sum;
}

double JsOf(const Completion& a, const Completion& b) {
  double sum = 0;
  for (size_t i = 0; i < a.p.size(); ++i) {
    const double m = (a.p[i] + b.p[i]) / 2;
    if (a.p[i] > 0) sum += a.p[i] * std::log(a.p[i] / m) / 2;
    if (b.p[i] > 0) sum += b.p[i] * std::log(b.p[i] / m) / 2;
  }
  return sum;
}

// Lists that differ in some of their tokens, with a tail; probabilities exactly those listed.
Lists RandomLists(size_t k, size_t vocab, std::mt19937* random) {
  const TestRow row = ModelRow(vocab, 1.2, 0, 1.4, (*random)());
  return ListsOf(row, k);
}

TEST(TopK, BothEndsOfTvAndTheUpperEndsOfHellingerAndJsAreAttainedByCompletions) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const size_t vocab = 4000;
    const size_t k = 1 + random() % 24;
    const Lists lists = RandomLists(k, vocab, &random);
    TopListPair pair = lists.Pair(vocab);
    pair.rounding = 0;
    TokenDrift drift;
    ASSERT_TRUE(MeasureTopK(pair, AllTokenSlots(), &drift));
    const size_t tv = TokenSlot("tv");
    const auto start = [&](int side) {
      return Completion::Of(lists.ids[side], lists.logprobs[side], vocab);
    };
    const double cap_p = std::exp(static_cast<double>(lists.logprobs[0].back()));
    const double cap_q = std::exp(static_cast<double>(lists.logprobs[1].back()));
    std::vector<size_t> up(vocab);
    std::iota(up.begin(), up.end(), 0);
    const std::vector<size_t> down(up.rbegin(), up.rend());

    // Farthest apart: nothing on the other's tokens, and tails from opposite ends.
    Completion p = start(0);
    Completion q = start(1);
    const double a = p.Left();
    const double b = q.Left();
    for (size_t i = 0; i < vocab; ++i) {
      if (!p.Open(i) && q.Open(i)) q.p[i] = 0;
      if (!q.Open(i) && p.Open(i)) p.p[i] = 0;
    }
    p.Spread(a, cap_p, up);
    q.Spread(b, cap_q, down);
    EXPECT_NEAR(TvOf(p, q), drift.hi[tv], 1e-9) << "k=" << k;
    EXPECT_NEAR(HellingerOf(p, q), drift.hi[TokenSlot("hellinger")], 1e-9) << "k=" << k;
    EXPECT_NEAR(JsOf(p, q), drift.hi[TokenSlot("js")], 1e-9) << "k=" << k;

    // Closest: the other's tokens as far as caps and mass allow, the rest in common.
    p = start(0);
    q = start(1);
    double mass_p = a;
    double mass_q = b;
    for (size_t i = 0; i < vocab; ++i) {
      const bool only_p = !p.Open(i) && q.Open(i);
      const bool only_q = !q.Open(i) && p.Open(i);
      if (only_p) {
        q.p[i] = std::min({p.p[i], cap_q, mass_q});
        mass_q -= q.p[i];
      } else if (only_q) {
        p.p[i] = std::min({q.p[i], cap_p, mass_p});
        mass_p -= p.p[i];
      }
    }
    const double common = std::min(mass_p, mass_q);
    double left = common;
    size_t i = 0;
    for (; i < vocab && left > 0; ++i) {
      if (!p.Open(i) || !q.Open(i)) continue;
      p.p[i] = q.p[i] = std::min({left, cap_p, cap_q});
      left -= p.p[i];
    }
    p.Spread(mass_p - common, cap_p, up);
    q.Spread(mass_q - common, cap_q, down);
    EXPECT_NEAR(TvOf(p, q), drift.lo[tv], 1e-9) << "k=" << k;
  }
}

TEST(TopK, TheLowerEndOfKlIsAttainedByACompletionAndNeverExceeded) {
  std::mt19937 random(8);
  std::uniform_real_distribution<double> unit;
  size_t attained = 0;
  size_t better = 0;
  for (int round = 0; round < 300; ++round) {
    const size_t vocab = 4000;
    const size_t k = 1 + random() % 24;
    const Lists lists = RandomLists(k, vocab, &random);
    TopListPair pair = lists.Pair(vocab);
    pair.rounding = 0;
    TokenDrift drift;
    ASSERT_TRUE(MeasureTopK(pair, AllTokenSlots(), &drift));
    const double low = drift.lo[TokenSlot("kl")];
    const double cap_p = std::exp(static_cast<double>(lists.logprobs[0].back()));
    const double cap_q = std::exp(static_cast<double>(lists.logprobs[1].back()));
    const Completion p0 = Completion::Of(lists.ids[0], lists.logprobs[0], vocab);
    const Completion q0 = Completion::Of(lists.ids[1], lists.logprobs[1], vocab);

    // Completions by one ratio r: the KKT conditions of docs/math.md B.2, the tails spread evenly.
    double least = kInf;
    double merged = 0;  // the data-processing bound, for comparison
    double rest_p = 1;
    double rest_q = 1;
    std::vector<size_t> listed;
    for (size_t i = 0; i < vocab; ++i) {
      if (!p0.Open(i) || !q0.Open(i)) listed.push_back(i);
      if (p0.Open(i) || q0.Open(i)) continue;
      merged += p0.p[i] * std::log(p0.p[i] / q0.p[i]);
      rest_p -= p0.p[i];
      rest_q -= q0.p[i];
    }
    merged += rest_p * std::log(rest_p / rest_q);
    const double left_p = p0.Left();
    const double left_q = q0.Left();
    for (double log_r = -6; log_r <= 6; log_r += 0.002) {
      const double r = std::exp(log_r);
      double sum = 0;
      double p_rest = left_p;
      double q_rest = left_q;
      for (const size_t i : listed) {
        double x = p0.p[i];
        double y = q0.p[i];
        if (y < 0) q_rest -= y = std::min(cap_q, x / r);
        if (x < 0) p_rest -= x = std::min(cap_p, y * r);
        sum += x * std::log(x / y);
      }
      if (p_rest <= 0 || q_rest <= 0) continue;
      sum += p_rest * std::log(p_rest / q_rest);
      const double kl = sum;
      least = std::min(least, kl);
      EXPECT_GE(kl, low - 1e-12) << "k=" << k;
    }
    if (least < kInf && least - low < 1e-5 * (1 + low)) ++attained;
    EXPECT_GE(low, merged - 1e-10);
    if (low > merged + 1e-9) ++better;

    // And random completions never fall below it.
    Completion p = p0;
    Completion q = q0;
    std::vector<size_t> order(vocab);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const double floor = 1e-9;
    for (const size_t i : order) {
      if (p.Open(i)) p.p[i] = floor;
      if (q.Open(i)) q.p[i] = floor;
    }
    const auto fill = [&](Completion* side, const Completion& given, double cap) {
      double left = side->Left();
      for (const size_t i : order) {
        if (!given.Open(i) || left <= 0) continue;
        const double more = std::min(left, unit(random) * (cap - floor));
        side->p[i] += more;
        left -= more;
      }
      return left;
    };
    if (fill(&p, p0, cap_p) > 1e-12 || fill(&q, q0, cap_q) > 1e-12) continue;
    EXPECT_GE(KlOf(p, q), low - 1e-12);
  }
  EXPECT_GE(attained, 280u);
  EXPECT_GE(better, 100u) << "the KKT end never beats merging: is it computed at all?";
}

TEST(TopK, IntervalsCloseAsTheListsGrow) {
  const TestRow row = ModelRow(2000, 0.05, 0, 2, 4);
  RowPair full;
  full.train = row.train.data();
  full.infer = row.infer.data();
  full.vocab = 2000;
  TokenDrift truth;
  ASSERT_TRUE(MeasureRowReference(full, AllTokenSlots(), &truth));
  const size_t tv = TokenSlot("tv");
  const size_t kl = TokenSlot("kl");
  double width = 1;
  for (const size_t k : std::initializer_list<size_t>{1, 4, 16, 64, 2000}) {
    TokenDrift drift;
    ASSERT_TRUE(MeasureTopK(ListsOf(row, k).Pair(2000), AllTokenSlots(), &drift));
    EXPECT_LE(drift.hi[tv] - drift.lo[tv], width);
    width = drift.hi[tv] - drift.lo[tv];
  }
  EXPECT_LE(width, 1e-4);
  TokenDrift complete;
  ASSERT_TRUE(MeasureTopK(ListsOf(row, 2000).Pair(2000), AllTokenSlots(), &complete));
  EXPECT_NEAR(complete.lo[kl], truth.lo[kl], 0.02 * truth.lo[kl]);
  EXPECT_NEAR(complete.hi[kl], truth.lo[kl], 0.02 * truth.lo[kl]);
}

TEST(TopK, HaveNoUpperEndWhereAnUnseenTokenCouldBeImpossible) {
  const TestRow row = ModelRow(500, 0.1, 0, 1, 4);
  TokenDrift drift;
  ASSERT_TRUE(MeasureTopK(ListsOf(row, 20).Pair(500), AllTokenSlots(), &drift));
  for (const char* name : {"kl", "reverse_kl", "chi2", "reverse_chi2", "logit_span"}) {
    EXPECT_EQ(drift.hi[TokenSlot(name)], kInf) << name;
    EXPECT_GE(drift.lo[TokenSlot(name)], 0) << name;
  }
  EXPECT_FALSE(drift.known[TokenSlot("raw_logit_linf")]);
  EXPECT_FALSE(drift.known[TokenSlot("log_ratio")]);
  EXPECT_LE(drift.hi[TokenSlot("tv")], 1);
}

// Log-probs at temperature 2 are of half the logits: what is stated in logits is twice as large.
TEST(TopK, DistancesAndMarginsAreInUnscaledLogitsAtAnyTemperature) {
  const size_t vocab = 60;
  const TestRow row = ModelRow(vocab, 0.5, 0, 1, 12);
  for (const double temperature : {0.1, 0.5, 1.0, 2.0, 5.0}) {
    RowPair full;
    full.train = row.train.data();
    full.infer = row.infer.data();
    full.vocab = vocab;
    full.temperature = temperature;
    TokenDrift truth;
    ASSERT_TRUE(MeasureRowReference(full, AllTokenSlots(), &truth));
    TestRow scaled = row;
    for (auto* side : {&scaled.train, &scaled.infer}) {
      for (float& z : *side) z = static_cast<float>(z / temperature);
    }
    const Lists lists = ListsOf(scaled, vocab);
    TopListPair pair = lists.Pair(vocab);
    pair.temperature = temperature;
    TokenDrift drift;
    ASSERT_TRUE(MeasureTopK(pair, AllTokenSlots(), &drift));
    for (const char* name : {"logit_span", "logit_linf", "margin", "train_margin"}) {
      const size_t slot = TokenSlot(name);
      EXPECT_LE(drift.lo[slot], truth.lo[slot]) << name << " T=" << temperature;
      EXPECT_GE(drift.hi[slot], truth.lo[slot]) << name << " T=" << temperature;
      EXPECT_NEAR(drift.lo[slot], drift.hi[slot], 1e-3) << name << " T=" << temperature;
    }
    const size_t l2 = TokenSlot("logit_l2");
    EXPECT_LE(drift.lo[l2], truth.lo[l2]) << "T=" << temperature;
    EXPECT_GE(drift.lo[l2], truth.lo[TokenSlot("logit_linf")]) << "T=" << temperature;
  }
}

// A number in place of a mask: a probability that no double can hold is small and not impossible.
TEST(TopK, ALogprobThatNoDoubleCanHoldIsNotImpossible) {
  Lists lists;
  lists.ids[0] = lists.ids[1] = {0, 1, 2};
  lists.logprobs[0] = {-0.7f, -0.7f, -6.0f};
  lists.logprobs[1] = {-0.6931472f, -0.6931472f, -1e4f};
  TokenDrift drift;
  ASSERT_TRUE(MeasureTopK(lists.Pair(3), AllTokenSlots(), &drift));
  const size_t kl = TokenSlot("kl");
  EXPECT_GT(drift.lo[kl], 1);
  EXPECT_LT(drift.lo[kl], std::exp(-6.0) * 1e4);
  EXPECT_EQ(drift.hi[kl], kInf);
}

TEST(TopK, RefusesListsThatAreNone) {
  const TestRow row = ModelRow(50, 0.1, 0, 1, 4);
  const auto message = [](const Lists& lists) {
    TokenDrift drift;
    const Result<> status = MeasureTopK(lists.Pair(50), AllTokenSlots(), &drift);
    return status ? std::string() : status.error().message();
  };
  Lists lists = ListsOf(row, 5);
  EXPECT_EQ(message(lists), "");
  lists.ids[1][2] = 50;
  EXPECT_NE(message(lists).find("infer top-k list names token 50"), std::string::npos);
  lists = ListsOf(row, 5);
  lists.ids[0][2] = lists.ids[0][3];
  EXPECT_NE(message(lists).find("twice"), std::string::npos);
  lists = ListsOf(row, 5);
  lists.logprobs[0][2] = std::nanf("");
  EXPECT_NE(message(lists).find("log-prob nan"), std::string::npos);
  lists = ListsOf(row, 5);
  lists.logprobs[0][0] = 0.5f;
  EXPECT_NE(message(lists).find("log-prob 0.5"), std::string::npos);
  lists.ids[0].clear();
  EXPECT_NE(message(lists).find("0 ids"), std::string::npos);
  lists = ListsOf(row, 2);
  lists.logprobs[0] = {-static_cast<float>(kInf), -static_cast<float>(kInf)};
  EXPECT_NE(message(lists).find("every token the log-prob -inf"), std::string::npos);
  lists = ListsOf(row, 5);
  TokenDrift drift;
  for (const double temperature : {0.0, -1.0, kInf, std::nan("")}) {
    TopListPair pair = lists.Pair(50);
    pair.temperature = temperature;
    EXPECT_FALSE(MeasureTopK(pair, AllTokenSlots(), &drift)) << temperature;
  }
  TopListPair pair = lists.Pair(50);
  pair.token = 50;
  EXPECT_FALSE(MeasureTopK(pair, AllTokenSlots(), &drift));
}

}  // namespace
}  // namespace kcc
