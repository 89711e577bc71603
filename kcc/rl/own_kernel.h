// The kernel's own gap beside a rejection threshold: how the statistic that a rule bounds is
// distributed over the batch when nothing is wrong but the kernels' difference, and what the rule
// keeps of it. A threshold inside that distribution rejects for what the kernel always does, and
// what it rejects is not a random part of the gradient (docs/results/e3-gpu.md).
//
// Own is old against rollout where the batch has the trainer's log-probs of the weights that
// sampled; else train against rollout, in which staleness is too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/correction.h"

namespace kcc {

// The batch whose train side is of the weights that sampled, where that is known.
RlBatch OwnGapOf(const RlBatch& batch);

// What a rule compares, one number a unit (token, sequence, segment), sorted. k2 and k3 as they
// are; of ratios and k1 the distance from 1 as a ratio, max(W, 1/W). Log-ratios are held within
// +-700.
Result<std::vector<double>> UnitStatistics(const RlBatch& batch, RlStatistic statistic,
                                           RlAggregate aggregate);

struct RlOwnQuantile {
  double p = 0, value = 0;
};

struct RlOwnKernel {
  std::string setting;  // "reject[0]"
  RlRejectRule rule;
  int64_t units = 0;
  double mean = 0;                       // of the units; ratios: of max(W, 1/W)
  std::vector<RlOwnQuantile> quantiles;  // at 0.05, 0.5, 0.95 and 0.99
  int64_t tokens = 0, tokens_kept = 0;   // by this rule alone

  double kept() const;
  // Rejects more than E3 shows to be harmless (training_evidence.h). True without any token.
  bool below_own() const;
};

// One for every rejection rule of a correction.
Result<std::vector<RlOwnKernel>> OwnKernelOf(const RlBatch& batch, const RlCorrection& correction,
                                             int threads = 1);

// "sequence mean k3: p50 0.0001, p95 0.003, p99 0.01, mean 0.0004".
std::string OwnKernelText(const RlOwnKernel& own);

}  // namespace kcc
