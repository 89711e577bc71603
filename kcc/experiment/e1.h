// E1 of the paper (8.1): the numerical drift of one perturbation at a time.
//
// Each kernel differs from its base in one switch; what only reorders operations is seen in f32,
// where the order matters. Per slice: the distribution of logit span, L-infinity, TV and KL, and
// how often the top token and the five best differ among tokens of at most a given margin.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/experiment/experiment.h"
#include "kcc/experiment/experiment_report.h"

namespace kcc {

inline constexpr std::array<std::string_view, 4> kE1Quantities = {"logit_span", "logit_linf", "tv",
                                                                  "kl"};

struct Distribution {
  double p50 = 0, p95 = 0, p99 = 0, max = 0;
  int64_t zeros = 0;               // exactly 0, which no logarithm shows
  std::vector<int64_t> histogram;  // of log10 of the others: kHistogramLow + i * kHistogramStep
};
inline constexpr double kHistogramLow = -20;
inline constexpr double kHistogramStep = 0.25;
inline constexpr size_t kHistogramBins = 92;

// Margins at which the disagreement curves are read: 1e-4 to 1e2, eight a decade.
inline constexpr size_t kMarginPoints = 49;
double MarginAt(size_t point);

struct MarginPoint {
  double top1 = 0;  // share of all tokens that have at most this margin and differ
  double top5 = 0;
};

struct E1Slice {
  std::array<Distribution, 4> drift;  // kE1Quantities
  std::vector<MarginPoint> curve;     // by MarginAt
};

struct E1Row {
  std::string name;  // "kv=e4m3"
  ErrorSource source = ErrorSource::kNone;
  std::string base;  // "train" or "f32"
  std::vector<E1Slice> by_slice;
  double flip_margin_max = 0;  // of the tokens whose best token changed
  double flip_span_max = 0;    // the largest span of such a token
  double linf_max = 0;
  double envelope = 0;  // worst case
  bool vacuous = false;
  double typical = 0;  // the envelope's statistical form
};

struct E1Result {
  std::vector<std::string> slices;
  std::vector<int64_t> requests;  // by slice
  std::vector<int64_t> tokens;
  std::vector<E1Row> rows;
  ExperimentReport report;  // without findings, which follow from the rows
};

struct E1Options {
  std::vector<Slice> slices;
  // So many of the requests are asked again after other requests, with prompts of this length.
  size_t long_requests = 20;
  size_t long_tokens = 512;
  bool preview = false;  // too few requests to conclude anything: no finding is stated
  ExperimentProgress progress;
};

// The contract is judged on every pair for the template; E1's own figures do not depend on it.
Result<E1Result> RunE1(const Checkpoint& checkpoint, std::span<const KernelRequest> requests,
                       const Contract& contract, const E1Options& options);

// The slice on which the 99th percentile of KL is largest.
size_t WorstSlice(const E1Row& row);

std::vector<Finding> E1Findings(const E1Result& result);
ExperimentReport E1Report(const E1Result& result);
std::string E1Page(const E1Result& result);
std::string E1Markdown(const E1Result& result);
std::string E1Json(const E1Result& result);
std::string E1Text(const E1Result& result);  // for a terminal

}  // namespace kcc
