// Two autoregressive laws over all continuations of T tokens, enumerated: every prefix has its own
// next-token pair.
#pragma once

#include <string>
#include <vector>

#include "bench/bounds/search.h"

namespace kcc::bench {

class TreeCase {
 public:
  static TreeCase Sample(Random& random);
  TreeCase Perturbed(Random& random, double step) const;
  std::string Describe() const;
  // log w is a difference of numbers of the span's size, and w its exponential.
  Real MeasuringError() const { return 0x1p-62L * (64 + 4 * span * tokens); }
  // More than one token, and far from saturation.
  bool Everyday() const { return tokens >= 2 && span * tokens <= 2; }

  int vocabulary = 2;
  int tokens = 2;
  double span = 0.1;               // of every node at most
  double order = 2;                // Renyi
  double cap = 1;                  // C of min(W, C)
  double deviation = 1;            // u of the tail, in units of sqrt(sum s_t^2)
  bool shared = false;             // one node for all prefixes: an i.i.d. product
  std::vector<double> logits;      // node-major, V per node
  std::vector<double> levels;      // in [0, 1]
  std::vector<double> step_share;  // s_t = span * share, per step

  // Derived, over the nodes of step t (0-based): what the bounds are stated on.
  struct Leaf {
    Real q;                    // probability under Q
    Real log_w;                // of the whole sequence
    Real kl;                   // sum_t KL(q_t||p_t) along the path
    std::vector<Real> step_w;  // log w_t
  };
  std::vector<Leaf> leaves;
  std::vector<Real> prefix_tv;  // TV(P_<=t, Q_<=t), t = 1..T
  Real max_token_tv = 0;
  Real max_token_kl = 0;  // KL(q_t||p_t)
  Real sum_mean_tv = 0;   // sum_t E_Q TV_t
  double SumOfSquares() const;
  std::vector<double> Spans() const;

 private:
  void Derive();
  int Node(int depth, int index) const;
};

}  // namespace kcc::bench
