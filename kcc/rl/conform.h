// Golden files: what a framework computed, compared with what its dialect computes here. The format
// is that of tests/data/rl/README.md: a list of cases with inputs, config, expected values and
// tolerances; expected {"error": …} means that the configuration must be refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

struct ConformMiss {
  std::string dialect, case_name, what;  // what: metric or array with its place
  std::string expected, got;
};

struct ConformReport {
  int64_t cases = 0, cases_missed = 0;
  int64_t values = 0;   // numbers compared
  int64_t refused = 0;  // configurations that had to be refused and were
  std::vector<ConformMiss> misses;
};

struct ConformOptions {
  // Also compare scalars with the framework's own code run in float64 (expected_float64), at
  // relative 1e-7 and absolute 1e-9.
  bool float64 = false;
};

// `dialect` is used where a case has no "framework". Fails only if the text is not of the format.
Result<ConformReport> RunConform(std::string_view json, std::string_view dialect,
                                 const ConformOptions& options = {});

}  // namespace kcc
