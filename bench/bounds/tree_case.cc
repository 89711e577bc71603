#include "bench/bounds/tree_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/bounds/token_case.h"

namespace kcc::bench {
namespace {

int NodeCount(int vocabulary, int tokens) {
  int total = 0;
  for (int depth = 0, width = 1; depth < tokens; ++depth, width *= vocabulary) total += width;
  return total;
}

}  // namespace

TreeCase TreeCase::Sample(Random& random) {
  TreeCase c;
  c.vocabulary = 2 + random.Below(2);
  c.tokens = 1 + random.Below(c.vocabulary == 2 ? 5 : 3);
  c.span = random.Chance(0.7) ? random.LogUniform(1e-4, 8) : random.LogUniform(1e-9, 60);
  c.order = random.LogUniform(0.1, 8);
  if (std::fabs(c.order - 1) < 1e-3) c.order = 2;
  c.cap = random.Chance(0.5) ? 1 : std::exp(random.Uniform() * c.span * c.tokens);
  c.deviation = random.Uniform(0, 2.5);
  c.shared = random.Chance(0.4);
  const double spread = random.Uniform(0, 3);
  const bool two_point = random.Chance(0.6);
  const int nodes = c.shared ? 1 : NodeCount(c.vocabulary, c.tokens);
  const auto size = static_cast<size_t>(c.vocabulary) * static_cast<size_t>(nodes);
  for (size_t i = 0; i < size; ++i) {
    c.logits.push_back(spread * random.Normal());
    c.levels.push_back(two_point ? (random.Chance(0.5) ? 1.0 : 0.0) : random.Uniform());
  }
  const bool uneven = random.Chance(0.3);
  for (int t = 0; t < c.tokens; ++t) c.step_share.push_back(uneven ? random.Uniform() : 1.0);
  c.Derive();
  return c;
}

TreeCase TreeCase::Perturbed(Random& random, double step) const {
  TreeCase c = *this;
  const bool all = random.Chance(0.3);
  const int pick = random.Below(static_cast<int>(2 * logits.size()) + tokens + 4);
  int at = 0;
  const auto move = [&] { return (all || at++ == pick) ? step * random.Normal() : 0.0; };
  c.span = std::clamp(c.span * std::exp(move()), 1e-10, 80.0);
  c.order = std::clamp(c.order * std::exp(0.5 * move()), 0.05, 10.0);
  if (std::fabs(c.order - 1) < 1e-3) c.order = order;
  c.cap = std::fmax(1.0, c.cap * std::exp(0.3 * c.span * move()));
  c.deviation = std::fmax(0.0, c.deviation + 0.2 * move());
  for (double& share : c.step_share) share = std::clamp(share + 0.3 * move(), 0.0, 1.0);
  for (size_t i = 0; i < logits.size(); ++i) {
    c.logits[i] = std::clamp(c.logits[i] + move(), -60.0, 60.0);
    c.levels[i] = std::clamp(c.levels[i] + 0.3 * move(), 0.0, 1.0);
  }
  c.Derive();
  return c;
}

int TreeCase::Node(int depth, int index) const {
  return shared ? 0 : NodeCount(vocabulary, depth) + index;
}

void TreeCase::Derive() {
  leaves = {{1, 0, 0, {}}};
  prefix_tv.clear();
  max_token_tv = max_token_kl = sum_mean_tv = 0;
  const auto width = static_cast<size_t>(vocabulary);
  for (int t = 0; t < tokens; ++t) {
    const double step_span = Spans()[static_cast<size_t>(t)];
    std::vector<Leaf> next;
    next.reserve(leaves.size() * width);
    Real tv_of_prefixes = 0;
    for (size_t i = 0; i < leaves.size(); ++i) {
      const size_t base = static_cast<size_t>(Node(t, static_cast<int>(i))) * width;
      // Relative to the likeliest token, as in TokenCase.
      const auto first = logits.begin() + static_cast<long>(base);
      const size_t mode =
          base + static_cast<size_t>(std::max_element(first, first + vocabulary) - first);
      const auto delta = [&](size_t v) {
        return static_cast<Real>(step_span * levels[base + v]) -
               static_cast<Real>(step_span * levels[mode]);
      };
      std::vector<Real> weight(width);
      Real total = 0;
      for (size_t v = 0; v < width; ++v) {
        total += weight[v] = std::exp(static_cast<Real>(logits[base + v] - logits[mode]));
      }
      Real excess = 0;
      for (size_t v = 0; v < width; ++v) excess += weight[v] / total * std::expm1(delta(v));
      const Real log_mean = std::log1p(excess);
      Real tv = 0;
      Real kl = 0;
      for (size_t v = 0; v < width; ++v) {
        const Real q = weight[v] / total;
        const Real x = delta(v) - log_mean;
        if (x < 0) tv += q * -std::expm1(x);
        kl += q * ReverseKlTerm(x);
        Leaf leaf{leaves[i].q * q, leaves[i].log_w + x, leaves[i].kl, leaves[i].step_w};
        leaf.step_w.push_back(x);
        next.push_back(std::move(leaf));
      }
      for (size_t v = 0; v < width; ++v) next[next.size() - 1 - v].kl += kl;
      max_token_tv = std::fmax(max_token_tv, tv);
      max_token_kl = std::fmax(max_token_kl, kl);
      sum_mean_tv += leaves[i].q * tv;
    }
    leaves = std::move(next);
    for (const Leaf& leaf : leaves) {
      if (leaf.log_w < 0) tv_of_prefixes += leaf.q * -std::expm1(leaf.log_w);
    }
    prefix_tv.push_back(tv_of_prefixes);
  }
}

std::vector<double> TreeCase::Spans() const {
  std::vector<double> spans;
  for (const double share : step_share) spans.push_back(span * share);
  return spans;
}

double TreeCase::SumOfSquares() const {
  double sum = 0;
  for (const double s : Spans()) sum += s * s;
  return sum * (1 + 1e-15);
}

std::string TreeCase::Describe() const {
  char text[128];
  std::snprintf(text, sizeof text, "V=%d T=%d s=%.3g%s", vocabulary, tokens, span,
                shared ? " iid" : "");
  return text;
}

}  // namespace kcc::bench
