// For tests: the definitions of the row quantities evaluated in 113-bit arithmetic, with nothing
// clever about them, and the rows to try them on.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace kcc {

// 113 bits either way: on ARM64 g++ 12 has no __float128, and long double is that type.
#if defined(__aarch64__)
using Quad = long double;
#else
using Quad = __float128;
#endif

inline Quad QuadLn2() {
  return static_cast<Quad>(0x1.62e42fefa39efp-1) + static_cast<Quad>(0x1.abc9e3b39803fp-56) +
         static_cast<Quad>(0x1.7b57a079a1934p-111);
}

inline Quad QuadExp(Quad x) {
  constexpr double kLog2e = 1.4426950408889634;
  const Quad ln2 = QuadLn2();
  if (static_cast<double>(x) < -11000) return 0;
  const double n = std::nearbyint(static_cast<double>(x) * kLog2e);
  const Quad r = (x - static_cast<Quad>(n) * ln2) / 256;
  static const std::array<Quad, 15> kInverse = [] {
    std::array<Quad, 15> inverse{};
    for (size_t k = 1; k < inverse.size(); ++k) inverse[k] = 1 / static_cast<Quad>(k);
    return inverse;
  }();
  Quad term = 1;
  Quad sum = 0;
  for (size_t k = 14; k >= 1; --k) sum = (sum + 1) * r * kInverse[k];
  // sum = e^r - 1; squaring e^r eight times through expm1 keeps the small ones exact.
  for (int k = 0; k < 8; ++k) sum = sum * (sum + 2);
  term += sum;
  int left = static_cast<int>(n);
  for (; left >= 1000; left -= 1000) term *= static_cast<Quad>(0x1p1000);
  for (; left <= -1000; left += 1000) term *= static_cast<Quad>(0x1p-1000);
  return term * static_cast<Quad>(std::ldexp(1.0, left));
}

inline Quad QuadLog(Quad v) {
  int shift = 0;
  while (v > static_cast<Quad>(0x1p900)) v *= static_cast<Quad>(0x1p-900), shift += 900;
  Quad y = static_cast<Quad>(std::log(static_cast<double>(v)));
  for (int k = 0; k < 2; ++k) {
    const Quad e = QuadExp(y);
    y += 2 * (v - e) / (v + e);
  }
  return y + static_cast<Quad>(shift) * QuadLn2();
}

inline Quad QuadSqrt(Quad v) {
  if (v <= 0) return 0;
  Quad y = static_cast<Quad>(std::sqrt(static_cast<double>(v)));
  for (int k = 0; k < 3; ++k) y = (y + v / y) / 2;
  return y;
}

// infer - train as a sum of two numbers, exactly: beside a mask of -3e38 even 113 bits lose a
// logit.
struct QuadDifference {
  Quad high = 0;
  Quad low = 0;

  QuadDifference() = default;
  QuadDifference(float train, float infer) {
    const auto a = static_cast<Quad>(train);
    const auto b = static_cast<Quad>(infer);
    high = b - a;
    const Quad a_part = b - high;
    const bool finite = std::isfinite(train) && std::isfinite(infer);
    low = finite ? (b - (high + a_part)) + (a_part - a) : Quad{0};
  }
  Quad Less(const QuadDifference& other) const { return (high - other.high) + (low - other.low); }
};

// One side's logits as logarithms of probabilities.
struct QuadSide {
  QuadSide(const std::vector<float>& row, Quad tau) : scaled(row.size()), power(row.size()) {
    top = row[0];
    for (const float logit : row) top = std::max(top, logit);
    for (size_t i = 0; i < row.size(); ++i) {
      scaled[i] = (static_cast<Quad>(row[i]) - static_cast<Quad>(top)) / tau;
      z += power[i] = QuadExp(scaled[i]);
    }
    log_z = QuadLog(z);
  }

  std::vector<Quad> scaled;  // (logit - top) / tau
  std::vector<Quad> power;   // e^scaled
  float top = 0;
  Quad z = 0;
  Quad log_z = 0;
};

inline Quad QuadInfinity() { return static_cast<Quad>(std::numeric_limits<double>::infinity()); }

// (large - small)^2 / small, by logarithms where the smaller one is no number.
inline Quad QuadChi2Term(Quad large, Quad small, Quad log_square, Quad log_small) {
  if (small > 0) return (large - small) * (large - small) / small;
  const Quad power = log_square - log_small;
  return static_cast<double>(power) > 11000 ? QuadInfinity() : QuadExp(power);
}

struct QuadDivergences {
  Quad kl = 0, reverse_kl = 0, js = 0, tv = 0, bc_gap = 0, chi2 = 0, reverse_chi2 = 0;
  Quad train_entropy = 0, infer_entropy = 0;

  // Entry `i` of both sides; nothing where neither gives it a probability that is a number.
  void Add(const QuadSide& train, const QuadSide& infer, size_t i, bool costly) {
    constexpr double kNoLogProb = -745.13;
    const Quad la = train.scaled[i] - train.log_z;
    const Quad lb = infer.scaled[i] - infer.log_z;
    const bool in_train = static_cast<double>(la) >= kNoLogProb;
    const bool in_infer = static_cast<double>(lb) >= kNoLogProb;
    if (!in_train && !in_infer) return;
    const Quad p = in_train ? train.power[i] / train.z : Quad{0};
    const Quad q = in_infer ? infer.power[i] / infer.z : Quad{0};
    if (in_train) kl += p * (la - lb), train_entropy -= p * la;
    if (in_infer) reverse_kl += q * (lb - la), infer_entropy -= q * lb;
    tv += (p > q ? p - q : q - p) / 2;
    chi2 += in_train ? QuadChi2Term(p, q, 2 * la, lb) : q;
    reverse_chi2 += in_infer ? QuadChi2Term(q, p, 2 * lb, la) : p;
    if (!costly) return;
    const Quad larger = la > lb ? la : lb;
    const Quad apart = la > lb ? lb - la : la - lb;
    const Quad log_m = larger + QuadLog((1 + QuadExp(apart)) / 2);
    if (in_train) js += p * (la - log_m) / 2;
    if (in_infer) js += q * (lb - log_m) / 2;
    const Quad root = QuadSqrt(p) - QuadSqrt(q);
    bc_gap += root * root / 2;
  }
};

// The differences of a row's logits: their ends, and their squares about 0 and about their mean.
struct QuadDistances {
  QuadDifference low, high;
  Quad squares = 0;
  Quad centred = 0;

  explicit QuadDistances(const std::vector<QuadDifference>& apart)
      : low(apart.front()), high(apart.front()) {
    Quad sum = 0;
    for (const QuadDifference& d : apart) {
      squares += d.high * d.high;
      if (d.Less(low) < 0) low = d;
      if (d.Less(high) > 0) high = d;
      sum += d.Less(apart.front());
    }
    for (const QuadDifference& d : apart) {
      const Quad moved = d.Less(apart.front()) - sum / static_cast<Quad>(apart.size());
      centred += moved * moved;
    }
  }
};

// -inf on both sides leaves an entry out; so, but for the distances of logits, does a probability
// below e^-745.13, which is less than any positive double, on both sides. -inf on one side is a
// probability of 0. `costly`: js and hellinger as well. `token` >= 0: its log_ratio.
inline std::map<std::string, double> RowTruth(const std::vector<float>& train,
                                              const std::vector<float>& infer,
                                              double temperature = 1, bool costly = true,
                                              int32_t token = -1) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  const auto tau = static_cast<Quad>(temperature);
  const QuadSide a(train, tau);
  const QuadSide b(infer, tau);
  QuadDivergences sums;
  std::vector<QuadDifference> apart;
  bool one_sided = false;
  for (size_t i = 0; i < train.size(); ++i) {
    if (train[i] == kMasked && infer[i] == kMasked) continue;
    one_sided = one_sided || train[i] == kMasked || infer[i] == kMasked;
    apart.emplace_back(train[i], infer[i]);
    sums.Add(a, b, i, costly);
  }
  const QuadDistances logits(apart);
  const Quad span = logits.high.Less(logits.low);
  const Quad low = -logits.low.high;
  const Quad entropy_change = sums.train_entropy - sums.infer_entropy;
  const auto distance = [&](Quad v) { return static_cast<double>(one_sided ? QuadInfinity() : v); };
  const auto out = [](Quad v) { return static_cast<double>(v); };
  std::map<std::string, double> truth = {
      {"kl", out(sums.kl)},
      {"reverse_kl", out(sums.reverse_kl)},
      {"tv", out(sums.tv)},
      {"chi2", out(sums.chi2)},
      {"reverse_chi2", out(sums.reverse_chi2)},
      {"train_entropy", out(sums.train_entropy)},
      {"entropy", out(sums.infer_entropy)},
      {"entropy_gap", out(entropy_change < 0 ? -entropy_change : entropy_change)},
      {"logit_span", distance(span / tau)},
      {"logit_linf", distance(span / 2)},
      {"logit_l2", distance(QuadSqrt(one_sided ? Quad{0} : logits.centred))},
      {"raw_logit_l2", distance(QuadSqrt(one_sided ? Quad{0} : logits.squares))},
      {"raw_logit_linf", distance(logits.high.high > low ? logits.high.high : low)},
  };
  if (costly) {
    truth["js"] = out(sums.js);
    truth["hellinger"] = out(sums.bc_gap);
  }
  if (token >= 0) {
    const auto at = static_cast<size_t>(token);
    const QuadDifference d(train[at], infer[at]);
    truth["log_ratio"] = out((b.log_z - a.log_z) - d.Less(QuadDifference(a.top, b.top)) / tau);
  }
  return truth;
}

struct TestRow {
  std::string name;
  std::vector<float> train;
  std::vector<float> infer;
};

// The synthetic logits of a language model: bulk N(-1, 2.3), a head of 30 tokens; `sharpen` scales
// the row, `sigma` is the perturbation of the infer side and `shift` its constant offset.
inline TestRow ModelRow(size_t vocab, double sigma, double shift, double sharpen, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  TestRow row;
  row.train.resize(vocab);
  row.infer.resize(vocab);
  for (size_t i = 0; i < vocab; ++i) row.train[i] = static_cast<float>(-1 + 2.3 * normal(random));
  for (int k = 0; k < 30; ++k) {
    row.train[random() % vocab] = static_cast<float>(8 + 3 * std::fabs(normal(random)));
  }
  for (size_t i = 0; i < vocab; ++i) {
    row.train[i] = static_cast<float>(row.train[i] * sharpen);
    row.infer[i] = static_cast<float>(row.train[i] + shift + sigma * normal(random));
  }
  return row;
}

}  // namespace kcc
