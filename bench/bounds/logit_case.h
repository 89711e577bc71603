// Raw logits of two kernels: norms against spans, and what stays in order.
#pragma once

#include <string>
#include <vector>

#include "bench/bounds/search.h"

namespace kcc::bench {

class LogitCase {
 public:
  static LogitCase Sample(Random& random);
  LogitCase Perturbed(Random& random, double step) const;
  std::string Describe() const;
  Real MeasuringError() const { return 0x1p-60L; }
  // Nothing here saturates.
  bool Everyday() const { return true; }

  double temperature = 1;
  size_t k = 1;
  std::vector<double> train;  // descending
  std::vector<double> delta;  // infer = train + delta, in real arithmetic

  Real Span() const;  // of delta
  Real Infer(size_t v) const { return static_cast<Real>(train[v]) + static_cast<Real>(delta[v]); }
  // Of train's top k, how many some choice among ties keeps out of infer's top k.
  int Lost() const;
};

}  // namespace kcc::bench
