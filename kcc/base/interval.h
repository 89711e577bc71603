// A closed interval of numbers: what partial evidence, a confidence level or a histogram bucket
// leaves open. In base because traces, statistics and verdicts all speak of one.
#pragma once

#include <limits>

namespace kcc {

struct Interval {
  double lo = std::numeric_limits<double>::quiet_NaN();
  double hi = std::numeric_limits<double>::quiet_NaN();

  bool exact() const { return lo == hi; }
  bool known() const { return lo == lo; }  // false: nothing is known
  bool operator==(const Interval&) const = default;
};

}  // namespace kcc
