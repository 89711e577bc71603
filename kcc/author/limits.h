// What evidence of a pair that conforms says it keeps to: for a metric, a value that a further
// sample of as many requests from the same pair stays within, at a stated confidence. Requests are
// the independent unit.
//
// Means: a prediction limit by Student's t over the cluster-robust standard error, sqrt(2) times as
// wide as a confidence limit, since the further sample errs too; asymptotic. Windows of one
// request: an order statistic, which assumes nothing (Clopper-Pearson). Both propose; the judge
// decides.
#pragma once

#include <cstdint>
#include <optional>

#include "kcc/contract/contract.h"
#include "kcc/summary/summary.h"

namespace kcc {

struct EvidenceLimit {
  double estimate = 0;  // of the metric on the evidence
  double limit = 0;     // what to expect at most (at least, for atLeast)
  int64_t requests = 0;
  bool exact_rank = true;  // windows: false where the sample was too small and the worst was taken
};

// P(T > t) = alpha for Student's t with `degrees` > 0 degrees of freedom, alpha in (0, 1/2).
double StudentUpper(double degrees, double alpha);

// Of a mean over the tokens of slice `all`. Nothing without evidence from two requests, or where an
// end of it is infinite.
std::optional<EvidenceLimit> MeanLimit(const Summary& summary, const Metric& metric,
                                       BoundKind bound, double confidence);

// The most events that a further sample of equal size has at level alpha, after `seen` in this one:
// the largest y with P(Bin(seen + y, 1/2) <= seen) > alpha. Precondition: seen >= 0.
int64_t PredictedCount(int64_t seen, double alpha);

// Of the mean of a share in [0, 1] that is rarely below 1, for atLeast: the lesser of MeanLimit's
// and what the predicted count of requests with a miss would make of it. `unit` is the least miss
// of one token, for evidence without any. Exact counts need the threshold 1 in the summary's plan;
// without it tokens are counted instead.
std::optional<EvidenceLimit> ShareLimit(const Summary& summary, const Metric& metric, double unit,
                                        double confidence);

// Of a metric in each request: the value that all but a share `exceedance` of requests keep within.
// Nothing where the summary's plan has no such window.
std::optional<EvidenceLimit> RequestLimit(const Summary& summary, const Metric& metric,
                                          double exceedance, double confidence);

}  // namespace kcc
