// What the experiments E1 and E2 of the paper (8.1, 8.2) share: scoring requests with one setting
// of the lab, the quantities of every token of a pair and their summary, requests put into longer
// contexts, and the sentences that say what the paper predicted and what was seen.
//
// Everything stays in memory: a few hundred requests of a small model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/kernel/kernel.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/engine.h"
#include "kcc/lab/lab_model.h"
#include "kcc/lab/switches.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/summary.h"
#include "kcc/trace/request_set.h"
#include "kcc/trace/slices.h"

namespace kcc {

using ExperimentProgress = std::function<void(int64_t done, int64_t total)>;

// The logits of every scored token, by request, row after row; by which kernel, and what it took.
struct ScoredLogits {
  std::vector<std::vector<float>> rows;
  KernelInfo kernel;
  EngineStats work;
};
Result<ScoredLogits> ScoreInMemory(const LabModel& model, const LabSwitches& switches,
                                   std::span<const KernelRequest> requests);

// Token by token, `slots` values each, for every request.
struct DriftTable {
  size_t slots = 0;
  std::vector<std::vector<double>> values;  // by request: [token][slot]

  size_t tokens(size_t request) const { return values[request].size() / slots; }
  double at(size_t request, size_t token, size_t slot) const {
    return values[request][token * slots + slot];
  }
};
Result<DriftTable> MeasureDrift(const ScoredLogits& train, const ScoredLogits& infer,
                                std::span<const KernelRequest> requests, size_t vocab,
                                std::span<const size_t> slots);

// The same pair as kcc measure would summarise it, sources included, for the judge.
Result<Summary> SummarizeDrift(const ScoredLogits& train, const ScoredLogits& infer,
                               std::span<const KernelRequest> requests, const Plan& plan);

// `all` and those of the slices that a request alone decides; those of tokens are left out.
Result<SliceEvaluator> RequestSlices(std::span<const Slice> slices);
// [request][slice].
std::vector<std::vector<bool>> SliceMembers(const SliceEvaluator& slices,
                                            std::span<const KernelRequest> requests);

// The request after whole other requests of `pool`, as a conversation that has gone on for a while:
// its prompt has exactly `length` tokens, and its id ends in "@length". Requests that are as long
// already stay as they are. Precondition: the pool has another request.
KernelRequest InContext(const KernelRequest& request, std::span<const KernelRequest> pool,
                        size_t length);

// The requests with the tokens that are scored; the digest of a trace of them is the same.
RequestSet RequestSetOf(std::span<const KernelRequest> requests);

// A type-1 quantile of sorted values, and 0 of none.
double SortedQuantile(std::span<const double> sorted, double p);

// A prediction of the paper and what became of it.
struct Finding {
  std::string predicted;
  std::string seen;
  bool holds = false;
  bool open = false;  // neither: what would decide it was not run
};
std::string_view FindingWord(const Finding& finding);  // "yes", "no", "not run"

}  // namespace kcc
