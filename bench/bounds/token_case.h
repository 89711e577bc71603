// One context, two kernels: q over V tokens, Delta of a given span, and with them everything the
// single-token bounds speak of, in long double.
#pragma once

#include <string>
#include <vector>

#include "bench/bounds/search.h"
#include "kcc/bounds/weights.h"

namespace kcc::bench {

class TokenCase {
 public:
  static TokenCase Sample(Random& random);
  TokenCase Perturbed(Random& random, double step) const;
  std::string Describe() const;
  // log w is a difference of numbers of the span's size, and w its exponential.
  Real MeasuringError() const { return 0x1p-62L * (32 + 4 * span); }
  // Far from where TV, and with it every bias, saturates.
  bool Everyday() const { return span <= 2; }

  // Parameters.
  double span = 0;                // of Delta, exactly
  double temperature = 1;         // for the bounds stated on raw logits
  double order = 2;               // Renyi
  CorrectionRange range;          // of the corrected estimators
  double exceedance = 0.01;       // of the soft clause
  std::vector<double> logits;     // of q
  std::vector<double> levels;     // Delta = span * level; min 0, max 1
  std::vector<double> rewards;    // in [0, 1]
  std::vector<double> advantage;  // in [-1, 1]
  std::vector<double> score;      // in [-1, 1], made a score by Score()

  // Derived.
  std::vector<Real> q;
  std::vector<Real> log_w;
  std::vector<Real> excess;  // w - 1
  Real tv = 0;
  Real kl_train_infer = 0;
  Real kl_infer_train = 0;
  Real chi2 = 0;

  Real Sum(Real (*term)(Real q, Real log_w)) const;  // sum_v term(q_v, log w_v)
  Real RewardDrift() const;
  Real RewardDeviation() const;  // sd under q
  Real WeightGap(Correction correction) const;
  Real ExcessBelow() const;  // E_q(a - w)_+
  Real WorstPpoGap() const;  // over the signs of A
  // |E_q[phi A S] - E_p[A S]| / max|S|, with S the score minus its mean under p: a true score has
  // mean 0. |A| <= 1.
  Real GradientBias(Correction correction) const;
  Real Renyi() const;

 private:
  void Derive();
  Real RewardMean() const;
};

// w log w - w + 1 and w - 1 - log w without cancellation, of x = log w.
Real KlTerm(Real x);
Real ReverseKlTerm(Real x);

}  // namespace kcc::bench
