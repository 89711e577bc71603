// Experiments E1 and E2 of the paper (8.1, 8.2) on the lab.
//
// E1: one perturbation at a time against its own base; the distribution of logit span, L-infinity,
// TV and KL per slice, and how often the top token and the top five change at a given margin.
// E2: engines under several concurrencies; the share of requests of a slice whose mean KL stays
// within a threshold, with narrow passes marked.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/kernel/kernel.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/switches.h"

namespace kcc {

inline constexpr std::array<std::string_view, 4> kE1Quantities = {"logit_span", "logit_linf", "tv",
                                                                  "kl"};

struct DriftSample {
  std::array<double, 4> drift{};  // kE1Quantities
  double margin = 0;              // of train: best logit minus second best
  bool top1_differs = false;
  bool top5_differs = false;
};

struct RequestSample {
  std::string id;
  std::vector<bool> slices;  // request-level ones
  std::vector<DriftSample> tokens;
};

struct ExperimentOptions {
  std::vector<Slice> slices;  // request-level; `all` comes first by itself
  std::string scratch = "/tmp";
  std::function<void(int64_t done, int64_t total)> progress;
};

struct Distribution {
  double p50 = 0, p95 = 0, p99 = 0, max = 0;
  std::vector<int64_t> histogram;  // of log10, kHistogramLow + i * kHistogramStep; first: below
};
inline constexpr double kHistogramLow = -15;
inline constexpr double kHistogramStep = 0.5;
inline constexpr size_t kHistogramBins = 36;

struct MarginPoint {
  double margin = 0;
  double top1 = 0;  // share of all tokens that have at most this margin and differ
  double top5 = 0;
};

struct E1Row {
  std::string name;  // "kv=e4m3"
  ErrorSource source = ErrorSource::kNone;
  std::string base;  // "train" or "f32"
  std::vector<std::array<Distribution, 4>> by_slice;
  std::vector<MarginPoint> curve;
  double linf_max = 0;
  double envelope = 0;  // worst case
  bool vacuous = false;
  double typical = 0;  // the envelope's statistical form
};

struct E1Result {
  std::vector<std::string> slices;
  std::vector<int64_t> tokens;  // by slice
  std::vector<E1Row> rows;
};

Result<E1Result> RunE1(const Checkpoint& checkpoint, std::span<const KernelRequest> requests,
                       const ExperimentOptions& options);

struct E2Cell {
  int64_t requests = 0;
  int64_t passing = 0;
  int64_t narrow = 0;  // passing with more than 80 % of the threshold used
};
struct E2Row {
  std::string engine;
  size_t concurrency = 0;
  std::vector<E2Cell> by_slice;
};
struct E2Result {
  std::vector<std::string> slices;
  double threshold = 0;  // on a request's mean KL
  std::vector<E2Row> rows;
};

Result<E2Result> RunE2(const Checkpoint& checkpoint, std::span<const KernelRequest> requests,
                       double threshold, const ExperimentOptions& options);

// One self-contained page each, under the report's style sheet, and the tables for docs/results.
std::string E1Page(const E1Result& result, std::string_view style);
std::string E2Page(const E2Result& result, std::string_view style);
std::string E1Markdown(const E1Result& result);
std::string E2Markdown(const E2Result& result);

}  // namespace kcc
