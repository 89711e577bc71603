// What the made-up reports measure: values drawn from shapes, the same on every platform.
#pragma once

#include <cstdint>
#include <string>

#include "kcc/report/report.h"

namespace kcc {

// splitmix64: the same numbers on every platform.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  double Uniform() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

struct SliceShape {
  std::string name;
  int64_t requests;
  int64_t tokens;
  double drift;  // factor on every divergence
};

struct QuantityShape {
  std::string name;
  double center;
  double spread;  // of the logarithm; for a signed quantity the standard deviation is `center`
  bool is_signed = false;
};

// One row of statistics and its histogram.
void AddQuantity(const QuantityShape& shape, const SliceShape& slice, uint64_t seed,
                 ReportData* report);

void AddCurve(const SliceShape& slice, uint64_t seed, ReportData* report);

// `rows` tokens, from the largest value of the quantity on the slice downwards.
void AddWorst(const SliceShape& slice, const std::string& quantity, int rows, uint64_t seed,
              ReportData* report);

}  // namespace kcc
