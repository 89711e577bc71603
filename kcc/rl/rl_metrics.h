// The metrics of an RL step by name, and clauses judged on them.
//
// A name is a level and a metric of the catalog's grammar (docs/metrics.md): "token.mean_k3",
// "sequence.min_log_ratio"; what is of no level has none: "tail_index". Version 1 of the JSON and
// the C interface had shorter names ("token.k3"), which clauses still accept.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/interval.h"
#include "kcc/base/result.h"
#include "kcc/rl/diagnostics.h"

namespace kcc {

struct RlNamedMetric {
  std::string name;      // "token.mean_k3"
  std::string version1;  // "token.k3"
  double value = 0;
};
// All of them by name, in a fixed order; those of one level are adjacent.
std::vector<RlNamedMetric> NamedMetrics(const RlMetrics& metrics);

// The mean over rows of their mean (1 - w)+: the one metric that a sample can certify.
inline constexpr std::string_view kRlCertifiedMetric = "row.mean_tv";

// One requirement, judged with rows as the independent units.
struct RlClause {
  std::string metric;  // a name of either version
  double threshold = 0;
  bool at_least = false;  // else at most
};

enum class RlVerdict : uint8_t { kSatisfied, kViolated, kInconclusive };
std::string_view RlVerdictName(RlVerdict verdict);

enum class RlReason : uint8_t {
  kNoToken,       // nothing was compared
  kNotANumber,    // too little evidence for this metric
  kWholeInside,   // the confidence interval is on one side of the threshold
  kStraddles,     // the confidence interval holds the threshold
  kOfThisSample,  // the sample's value, compared as it is
};
std::string_view RlReasonText(RlReason reason);

struct RlClauseVerdict {
  RlClause clause;
  std::string metric;  // the clause's, by its name of today
  RlVerdict verdict = RlVerdict::kInconclusive;
  RlReason reason = RlReason::kNoToken;
  double value = 0;
  Interval interval;       // of the metric's expectation; unknown where none exists
  bool certified = false;  // decided by the interval, not by comparing the value
};
// Only row.mean_tv can be certified from samples (docs/math.md B.4); the others are compared as
// they are and say so. Fails for a metric it does not know, naming the nearest.
Result<std::vector<RlClauseVerdict>> JudgeRl(const RlMetrics& metrics,
                                             std::span<const RlClause> clauses);

}  // namespace kcc
