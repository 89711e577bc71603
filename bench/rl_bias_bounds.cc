// The bias expressions of docs/rl.md on problems small enough to enumerate: all sequences of a
// random pair of autoregressive policies, random scores and advantages. The exact bias of the
// corrected gradient must not exceed the bound; how near it comes is the tightness.
//
//   one token:   |bias| <= A G   E_q|w - phi|
//   sequences:   |bias| <= A G sum_t E_Q|W - phi_t|   (outcome advantages)
// phi_t is what CorrectRl gives, rejection and veto included.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kcc/rl/replay.h"

namespace {

struct Problem {
  size_t vocabulary = 2, length = 1;
  std::vector<double> train, rollout, score;     // by prefix and token
  std::vector<double> advantage;                 // by sequence
  std::vector<double> train_logs, rollout_logs;  // [sequences, length]
  size_t sequences = 0;
};

struct Case {
  double bias = 0, bound = 0;
};

size_t Power(size_t base, size_t exponent) {
  size_t out = 1;
  for (size_t i = 0; i < exponent; ++i) out *= base;
  return out;
}

// A number for the prefix of a sequence up to t: each prefix has its own distributions.
size_t PrefixOf(const Problem& p, size_t sequence, size_t t) {
  size_t offset = 0;
  for (size_t i = 0; i < t; ++i) offset += Power(p.vocabulary, i);
  return offset + sequence / Power(p.vocabulary, p.length - t);
}

size_t TokenOf(const Problem& p, size_t sequence, size_t t) {
  return sequence / Power(p.vocabulary, p.length - 1 - t) % p.vocabulary;
}

Problem Make(std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  std::normal_distribution<double> normal;
  Problem p;
  p.vocabulary = 2 + random() % 3;
  p.length = 1 + random() % 3;
  size_t prefixes = 0;
  for (size_t t = 0; t < p.length; ++t) prefixes += Power(p.vocabulary, t);
  const double gap = std::pow(10.0, -2 + 2.5 * uniform(random));
  for (size_t c = 0; c < prefixes; ++c) {
    std::vector<double> a, b, s;
    double sum_a = 0, sum_b = 0, mean = 0, largest = 0;
    for (size_t v = 0; v < p.vocabulary; ++v) {
      const double z = 1.5 * normal(random);
      b.push_back(std::exp(z));
      a.push_back(std::exp(z + gap * normal(random)));
      sum_a += a.back();
      sum_b += b.back();
      s.push_back(uniform(random) < 0.5 ? -1 : 1);
    }
    // A score has mean 0 under the policy it belongs to, and norm at most 1 here.
    for (size_t v = 0; v < p.vocabulary; ++v) mean += a[v] / sum_a * s[v];
    for (double& x : s) largest = std::max(largest, std::fabs(x -= mean));
    for (size_t v = 0; v < p.vocabulary; ++v) {
      p.train.push_back(std::log(a[v] / sum_a));
      p.rollout.push_back(std::log(b[v] / sum_b));
      p.score.push_back(largest > 0 ? s[v] / largest : 0);
    }
  }
  p.sequences = Power(p.vocabulary, p.length);
  for (size_t y = 0; y < p.sequences; ++y) {
    for (size_t t = 0; t < p.length; ++t) {
      const size_t at = PrefixOf(p, y, t) * p.vocabulary + TokenOf(p, y, t);
      p.train_logs.push_back(p.train[at]);
      p.rollout_logs.push_back(p.rollout[at]);
    }
    p.advantage.push_back(2 * uniform(random) - 1);
  }
  return p;
}

Case Solve(Problem& p, const kcc::RlCorrection& correction, bool aligned) {
  kcc::RlBatch batch;
  batch.rows = static_cast<int64_t>(p.sequences);
  batch.columns = static_cast<int64_t>(p.length);
  batch.train = {p.train_logs.data(), kcc::RlType::kF64, batch.columns};
  batch.rollout = {p.rollout_logs.data(), kcc::RlType::kF64, batch.columns};
  std::vector<double> phi(p.train_logs.size());
  kcc::RlCorrectOutput output;
  output.weights_double = phi;
  if (!kcc::CorrectRl(batch, correction, output).has_value()) std::abort();
  Case out;
  for (size_t y = 0; y < p.sequences; ++y) {
    double log_p = 0, log_q = 0, push = 0;
    for (size_t t = 0; t < p.length; ++t) {
      log_p += p.train_logs[y * p.length + t];
      log_q += p.rollout_logs[y * p.length + t];
    }
    const double q = std::exp(log_q), w = std::exp(log_p - log_q);
    for (size_t t = 0; t < p.length; ++t) {
      const double gap = w - phi[y * p.length + t];
      push += gap * p.score[PrefixOf(p, y, t) * p.vocabulary + TokenOf(p, y, t)];
      out.bound += q * std::fabs(gap);
    }
    // The advantages that make the bias largest, or any.
    const double advantage = aligned ? (push > 0 ? 1.0 : -1.0) : p.advantage[y];
    out.bias += q * advantage * push;
  }
  return out;
}

struct Tally {
  int problems = 0, violations = 0;
  double largest = 0, sum = 0;
};

}  // namespace

int main(int argc, char** argv) {
  int problems = 100000;
  uint64_t seed = 8;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--problems=", 11) == 0) problems = std::atoi(argv[i] + 11);
    if (std::strncmp(argv[i], "--seed=", 7) == 0) seed = std::strtoull(argv[i] + 7, nullptr, 10);
  }
  const auto grid = kcc::ReplayGrid();
  std::vector<Tally> tallies(grid.size());
  std::mt19937_64 random(seed);
  for (int i = 0; i < problems; ++i) {
    Problem problem = Make(random);
    const size_t which = random() % grid.size();
    const Case c = Solve(problem, grid[which], random() % 2 == 0);
    Tally& tally = tallies[which];
    ++tally.problems;
    tally.violations += std::fabs(c.bias) > c.bound * (1 + 1e-12) + 1e-13;
    if (c.bound < 1e-12) continue;
    tally.largest = std::max(tally.largest, std::fabs(c.bias) / c.bound);
    tally.sum += std::fabs(c.bias) / c.bound;
  }
  std::printf("| correction | problems | violations | largest bias/bound | mean |\n");
  std::printf("|---|---|---|---|---|\n");
  int violations = 0;
  for (size_t g = 0; g < grid.size(); ++g) {
    const Tally& tally = tallies[g];
    violations += tally.violations;
    std::printf("| %s | %d | %d | %.3f | %.3f |\n", kcc::DescribeCorrection(grid[g]).c_str(),
                tally.problems, tally.violations, tally.largest,
                tally.sum / std::max(1, tally.problems));
  }
  std::printf("\n%d problems, %d violations\n", problems, violations);
  return violations > 0;
}
