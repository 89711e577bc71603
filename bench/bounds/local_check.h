// Each operator's local bound against emulated kernels, element by element on the kernel's own
// inputs: nothing is propagated, so the bounds are close enough to mean something.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kcc::bench {

struct LocalFinding {
  std::string op;
  int64_t elements = 0;
  double best_ratio = 0;  // max of |error|/bound
  int64_t violations = 0;
};

std::vector<LocalFinding> CheckOperators(int repeats, uint64_t seed);

}  // namespace kcc::bench
