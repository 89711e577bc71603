// Canonical diagnostics of the gap between trainer and rollout engine from sampled tokens, in
// double (docs/math.md B.4). With y ~ rollout, d = log w = train - rollout at the sampled token:
//   k1 = -d         k2 = d^2/2        k3 = w - 1 - d        estimate KL(rollout || train)
//   k3_reverse = w d - w + 1                                estimates KL(train || rollout)
//   tv = (1 - w)+ in [0, 1]: the judged form; tv_abs = |w - 1|/2: the same mean, unbounded
//   chi2 = E(w - 1)^2       ess = (E w)^2 / E w^2       mean w = the kept mass of a cut sampler
// Units: the token, the sequence (w = product, log w = S), its geometric mean (log w = S/T), and
// the segment (a run of ones in the mask: a turn). Nothing is clamped, nothing overflows on the
// way: a metric beyond double's range is infinite or 0, ess never is (rl/level_state.h).
//
// A row's sums are taken in a fixed order over its valid tokens; rows are added up exactly. So a
// summary of rows is the same bytes whatever the padding, the split over ranks or steps, and the
// order of merging.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/interval.h"
#include "kcc/base/result.h"
#include "kcc/rl/batch.h"

namespace kcc {

enum class RlLevel : uint8_t { kToken, kSequence, kGeometric, kSegment };
inline constexpr std::array kRlLevels = {RlLevel::kToken, RlLevel::kSequence, RlLevel::kGeometric,
                                         RlLevel::kSegment};
std::string_view RlLevelName(RlLevel level);  // "token", "sequence", "geometric", "segment"

// The metrics of one level; NaN where there is nothing to say (no unit; sd of one).
struct RlLevelMetrics {
  int64_t units = 0;
  double k1 = 0, k2 = 0, k3 = 0, k3_reverse = 0;  // means
  double tv = 0, tv_abs = 0;                      // means
  double mean_abs_log_ratio = 0;
  double mean_w = 0, sd_w = 0;  // sd: of the units, divisor n
  double chi2 = 0, ess = 0;     // ess in (0, 1]; NaN too where an old summary has lost it
  double log_ratio_min = 0, log_ratio_max = 0;
};

// A sum of -(w - 1) A over tokens by the advantage's sign, per token of the slice: the part of the
// gradient that the mismatch adds, which k1 and k3 cannot see.
struct RlSkew {
  double positive = 0, negative = 0;  // sum of -(w-1)A over tokens of that sign / all tokens
  double mean_abs_advantage = 0;
  int64_t tokens_positive = 0, tokens_negative = 0;
  double bias_bound = 0;  // mean |w-1||A|, the bound of A.7 per unit of score norm
};

struct RlQuantile {
  double p = 0;
  Interval log_ratio;  // bucket that holds the quantile of d, 1/64 wide relatively
};

struct RlMetrics {
  std::string slice;  // empty: everything
  int64_t rows = 0, empty_rows = 0, tokens = 0;
  // Tokens with log w below -700 or above 700: one side gives them no chance. They are left out of
  // all metrics but tv, where the former count as 1: a finding, not a number.
  int64_t zero_ratio = 0, infinite_ratio = 0;
  std::array<RlLevelMetrics, 4> level;            // by RlLevel
  double train_log_ppl = 0, rollout_log_ppl = 0;  // -mean log-prob over tokens
  double train_ppl = 0, rollout_ppl = 0;
  double tv_rows = 0;     // mean over rows of the row's mean of (1-w)+: what tv_bound is about
  Interval tv_bound;      // of tv_rows' expectation, each end at `confidence` and at any time
  double tail_index = 0;  // Hill estimate for w on its largest 1 % (>= 10 tokens); > 0.5: no
                          // finite variance, > 1: no finite mean. NaN: too few tokens
  std::vector<RlQuantile> quantiles;
  double bit_equal_share = 0;  // tokens whose two float32 log-probs have the same bits
  bool has_advantages = false;
  RlSkew skew;
  bool has_old = false;
  RlLevelMetrics mismatch;   // old - rollout, tokens
  RlLevelMetrics staleness;  // train - old, tokens

  const RlLevelMetrics& at(RlLevel l) const { return level[static_cast<size_t>(l)]; }
};

struct RlReportOptions {
  double confidence = 0.95;
  std::vector<double> quantiles = {0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999};
};

struct RlSliceState;  // rl/slice_state.h

// Exact state, by slice. Not thread-safe; make one per thread and merge.
class RlSummary {
 public:
  RlSummary();
  ~RlSummary();
  RlSummary(const RlSummary&);
  RlSummary& operator=(const RlSummary&);
  RlSummary(RlSummary&&) noexcept;
  RlSummary& operator=(RlSummary&&) noexcept;

  // Adds every row of a batch. On an error nothing was added. threads: rows are shared out; the
  // state does not depend on their number.
  Result<> Add(const RlBatch& batch, int threads = 1);
  // Without memory for it, both are as before; std::bad_alloc is thrown.
  void Merge(const RlSummary& other);
  void Merge(RlSummary&& other);

  // The state as bytes: equal states give equal bytes. Read back defensively.
  std::string Serialize() const;
  static Result<RlSummary> Parse(std::string_view bytes);

  int64_t tokens() const;
  std::vector<std::string> slices() const;  // sorted; without the whole
  // Of everything, and of one slice. Unknown slice: metrics of nothing. An effective sample size
  // outside (0, 1], which no rows give, is an error that names it: the summary's bytes were wrong.
  Result<RlMetrics> Metrics(const RlReportOptions& options = {}) const;
  Result<RlMetrics> Metrics(std::string_view slice, const RlReportOptions& options = {}) const;

 private:
  friend class RlPass;
  void MergeShared(const RlSummary& other);
  std::map<std::string, std::unique_ptr<RlSliceState>, std::less<>> slices_;
};

// One call for the common case.
Result<RlMetrics> DiagnoseRl(const RlBatch& batch, const RlReportOptions& options = {},
                             int threads = 1);

}  // namespace kcc
