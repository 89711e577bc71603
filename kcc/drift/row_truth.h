// For tests: the definitions of the row quantities evaluated in 113-bit arithmetic, with nothing
// clever about them, and the rows to try them on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace kcc {

using Quad = __float128;

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
  Quad term = 1;
  Quad sum = 0;
  for (int k = 14; k >= 1; --k) sum = (sum + 1) * r / static_cast<Quad>(k);
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

// Finite logits only. `costly`: js and hellinger as well.
inline std::map<std::string, double> RowTruth(const std::vector<float>& train,
                                              const std::vector<float>& infer,
                                              double temperature = 1, bool costly = true) {
  const size_t n = train.size();
  std::vector<Quad> a(n);
  std::vector<Quad> b(n);
  std::vector<Quad> ea(n);
  std::vector<Quad> eb(n);
  float top_a = train[0];
  float top_b = infer[0];
  for (size_t i = 0; i < n; ++i)
    top_a = std::max(top_a, train[i]), top_b = std::max(top_b, infer[i]);
  Quad za = 0;
  Quad zb = 0;
  const auto tau = static_cast<Quad>(temperature);
  for (size_t i = 0; i < n; ++i) {
    a[i] = (static_cast<Quad>(train[i]) - static_cast<Quad>(top_a)) / tau;
    b[i] = (static_cast<Quad>(infer[i]) - static_cast<Quad>(top_b)) / tau;
    za += ea[i] = QuadExp(a[i]);
    zb += eb[i] = QuadExp(b[i]);
  }
  const Quad log_za = QuadLog(za);
  const Quad log_zb = QuadLog(zb);
  Quad kl = 0, reverse_kl = 0, js = 0, tv = 0, bc_gap = 0, chi2 = 0, reverse_chi2 = 0;
  Quad ha = 0, hb = 0, sum = 0, squares = 0, low = 0, high = 0;
  for (size_t i = 0; i < n; ++i) {
    const Quad la = a[i] - log_za;
    const Quad lb = b[i] - log_zb;
    const Quad p = ea[i] / za;
    const Quad q = eb[i] / zb;
    kl += p * (la - lb);
    reverse_kl += q * (lb - la);
    tv += (p > q ? p - q : q - p) / 2;
    chi2 += (p - q) * (p - q) / q;
    reverse_chi2 += (p - q) * (p - q) / p;
    ha -= p * la;
    hb -= q * lb;
    if (costly) {
      const Quad log_m = la + QuadLog((1 + QuadExp(lb - la)) / 2);
      js += (p * (la - log_m) + q * (lb - log_m)) / 2;
      const Quad root = QuadSqrt(p) - QuadSqrt(q);
      bc_gap += root * root / 2;
    }
    const Quad d = static_cast<Quad>(infer[i]) - static_cast<Quad>(train[i]);
    low = i == 0 || d < low ? d : low;
    high = i == 0 || d > high ? d : high;
    sum += d;
    squares += d * d;
  }
  const Quad centred = squares - sum * sum / static_cast<Quad>(n);
  const auto out = [](Quad v) { return static_cast<double>(v); };
  std::map<std::string, double> truth = {
      {"kl", out(kl)},
      {"reverse_kl", out(reverse_kl)},
      {"tv", out(tv)},
      {"chi2", out(chi2)},
      {"reverse_chi2", out(reverse_chi2)},
      {"train_entropy", out(ha)},
      {"entropy", out(hb)},
      {"entropy_gap", out(ha > hb ? ha - hb : hb - ha)},
      {"logit_span", out((high - low) / tau)},
      {"logit_linf", out((high - low) / 2)},
      {"logit_l2", out(QuadSqrt(centred))},
      {"raw_logit_l2", out(QuadSqrt(squares))},
      {"raw_logit_linf", out(high > -low ? high : -low)},
  };
  if (costly) {
    truth["js"] = out(js);
    truth["hellinger"] = out(bc_gap);
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
