// Sums of products in fp32 under each of the schedules that kcc/bounds/reduction.h speaks of.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kcc/bounds/reduction.h"

namespace kcc::bench {

// Exactly the named association; operands are rounded to fp32 first.
class Fp32Dot {
 public:
  Fp32Dot(const double* a, const double* b) : a_(a), b_(b) {}

  float Run(Schedule schedule, int64_t n, int64_t block) const {
    switch (schedule) {
      case Schedule::kPairwise:
        return Tree(0, n);
      case Schedule::kTiled: {
        float sum = 0;
        for (int64_t i = 0; i < n; i += block) sum += Tree(i, std::min(i + block, n));
        return sum;
      }
      case Schedule::kSplitK: {
        const int64_t length = (n + block - 1) / block;
        float sum = 0;
        for (int64_t i = 0; i < n; i += length) sum += Line(i, std::min(i + length, n), 1);
        return sum;
      }
      case Schedule::kAnyOrder:  // some order: backwards
        return Line(n - 1, -1, -1);
      case Schedule::kSequential:
        break;
    }
    return Line(0, n, 1);
  }

 private:
  float Term(int64_t i) const { return static_cast<float>(a_[i]) * static_cast<float>(b_[i]); }
  float Line(int64_t from, int64_t to, int64_t step) const {
    float sum = Term(from);
    for (int64_t i = from + step; i != to; i += step) sum += Term(i);
    return sum;
  }
  float Tree(int64_t from, int64_t to) const {
    if (to - from == 1) return Term(from);
    const int64_t middle = from + (to - from + 1) / 2;
    return Tree(from, middle) + Tree(middle, to);
  }

  const double* a_;
  const double* b_;
};

}  // namespace kcc::bench
