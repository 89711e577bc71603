// From exact sums to metrics: means, effective sample size, quantiles, tail index, bounds.
#include <algorithm>
#include <array>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/base/strings.h"
#include "kcc/numeric/double_math.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/slice_state.h"
#include "kcc/stats/mean_bounds.h"

namespace kcc {
namespace {

constexpr uint64_t kTailTokensMin = 10;

// Quantiles of the histogram. Sums over blocks of buckets come first: a report asks for many
// quantiles, and most buckets lie before the first token.
class BucketQuantiles {
 public:
  BucketQuantiles(const std::vector<uint64_t>& buckets, uint64_t total)
      : buckets_(buckets), total_(total) {
    for (size_t i = 0; i < buckets.size(); ++i) blocks_[i / kBlock] += buckets[i];
  }

  // The bucket of the type-1 quantile: the value of rank ceil(n p).
  Interval Of(double p) const {
    if (total_ == 0) return {};
    const double exact = std::ceil(p * static_cast<double>(total_));
    const auto rank = static_cast<uint64_t>(std::clamp(exact, 1.0, static_cast<double>(total_)));
    uint64_t seen = 0;
    size_t i = 0;
    while (i < buckets_.size() && seen + blocks_[i / kBlock] < rank) {
      seen += blocks_[i / kBlock];
      i += kBlock;
    }
    for (; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen < rank) continue;
      const auto [lo, hi] = RlBucketEdges(static_cast<int>(i));
      return {lo, hi};
    }
    return {};
  }

 private:
  static constexpr size_t kBlock = 64;
  static_assert(kRlBuckets % kBlock == 0);

  const std::vector<uint64_t>& buckets_;
  uint64_t total_;
  std::array<uint64_t, kRlBuckets / kBlock> blocks_ = {};
};

// Hill: the mean of log w above a threshold, less the threshold, over the largest 1 %. Each token
// stands at the middle of its bucket.
double TailIndex(const std::vector<uint64_t>& buckets, uint64_t total) {
  const uint64_t wanted = total / 100;
  if (wanted < kTailTokensMin || buckets.empty()) return kNaN;
  size_t first = buckets.size();
  uint64_t count = 0;
  while (first > kRlBucketsOneSide && count < wanted) count += buckets[--first];
  if (count < wanted) return kNaN;  // the largest 1 % reaches w <= 1: there is no upper tail
  const double threshold = RlBucketEdges(static_cast<int>(first))[0];
  double sum = 0;
  for (size_t i = first; i < buckets.size(); ++i) {
    if (buckets[i] == 0) continue;
    const auto [lo, hi] = RlBucketEdges(static_cast<int>(i));
    sum += static_cast<double>(buckets[i]) * ((lo + hi) / 2 - threshold);
  }
  return sum / static_cast<double>(count);
}

Result<> CheckEss(std::string_view slice, std::string_view level, const RlLevelState& state,
                  const RlLevelMetrics& metrics) {
  const bool lost = state.unsplit > 0 && std::isnan(metrics.ess);
  if (metrics.units == 0 || lost || (metrics.ess > 0 && metrics.ess <= 1)) return {};
  return BrokenEvidenceError(
      std::string(level) + ".ess of " +
      (slice.empty() ? "everything" : "slice \"" + std::string(slice) + "\"") + " is " +
      ShortestNumber(metrics.ess) +
      ", outside (0, 1]: no rows give such sums; the summary was damaged or made up");
}

Result<RlMetrics> MetricsOf(const RlSliceState& state, std::string_view name,
                            const RlReportOptions& options) {
  RlMetrics out;
  out.slice = name;
  out.rows = static_cast<int64_t>(state.rows);
  out.empty_rows = static_cast<int64_t>(state.empty_rows);
  out.zero_ratio = static_cast<int64_t>(state.zero_ratio);
  out.infinite_ratio = static_cast<int64_t>(state.infinite_ratio);
  for (size_t l = 0; l < state.level.size(); ++l) {
    out.level[l] = state.level[l].Metrics();
    KCC_TRY_VOID(CheckEss(name, RlLevelName(kRlLevels[l]), state.level[l], out.level[l]));
  }
  const RlLevelState& token = state.level[0];
  out.tokens = static_cast<int64_t>(token.units);
  const auto n = static_cast<double>(token.units);
  const auto zero = static_cast<double>(state.zero_ratio);
  out.level[0].tv = (token.below.Value() + zero) / (n + zero);
  out.train_log_ppl = 0 - state.train.Value() / n;
  out.rollout_log_ppl = 0 - state.rollout.Value() / n;
  out.train_ppl = Exp(out.train_log_ppl);
  out.rollout_ppl = Exp(out.rollout_log_ppl);
  out.bit_equal_share = static_cast<double>(state.bit_equal) / n;
  const auto rows = static_cast<double>(state.tv_row_count);
  out.tv_rows = state.tv_rows.Value() / rows;
  if (state.tv_row_count > 0) {
    const ValueSums sums{static_cast<int64_t>(state.tv_row_count), state.tv_rows.Value(),
                         state.tv_rows_square.Value()};
    const double alpha = 1 - options.confidence;
    out.tv_bound = {MeanLowerBySums(sums, alpha), MeanUpperBySums(sums, alpha)};
  }
  out.tail_index = TailIndex(state.buckets, token.units);
  const BucketQuantiles quantiles(state.buckets, token.units);
  for (const double p : options.quantiles) out.quantiles.push_back({p, quantiles.Of(p)});
  const RlSkewState& skew = state.skew;
  out.has_advantages = skew.tokens > 0;
  out.skew.positive = skew.positive.Mean(skew.tokens);
  out.skew.negative = skew.negative.Mean(skew.tokens);
  out.skew.mean_abs_advantage = skew.abs_advantage.Mean(skew.tokens);
  out.skew.bias_bound = skew.bound.Mean(skew.tokens);
  out.skew.tokens_positive = static_cast<int64_t>(skew.tokens_positive);
  out.skew.tokens_negative = static_cast<int64_t>(skew.tokens_negative);
  out.has_old = state.mismatch.units + state.staleness.units > 0;
  out.mismatch = state.mismatch.Metrics();
  out.staleness = state.staleness.Metrics();
  KCC_TRY_VOID(CheckEss(name, "mismatch", state.mismatch, out.mismatch));
  KCC_TRY_VOID(CheckEss(name, "staleness", state.staleness, out.staleness));
  return out;
}

}  // namespace

std::string_view RlLevelName(RlLevel level) {
  switch (level) {
    case RlLevel::kToken:
      return "token";
    case RlLevel::kSequence:
      return "sequence";
    case RlLevel::kGeometric:
      return "geometric";
    case RlLevel::kSegment:
      return "segment";
  }
  return "";
}

Result<RlMetrics> RlSummary::Metrics(const RlReportOptions& options) const {
  if (slices_.size() == 1) return MetricsOf(*slices_.begin()->second, "", options);
  RlSliceState all;
  for (const auto& [name, state] : slices_) all.Merge(*state);
  return MetricsOf(all, "", options);
}

Result<RlMetrics> RlSummary::Metrics(std::string_view slice, const RlReportOptions& options) const {
  const auto found = slices_.find(slice);
  if (found != slices_.end()) return MetricsOf(*found->second, slice, options);
  return MetricsOf(RlSliceState(), slice, options);
}

Result<RlMetrics> DiagnoseRl(const RlBatch& batch, const RlReportOptions& options, int threads) {
  RlSummary summary;
  KCC_TRY_VOID(summary.Add(batch, threads));
  return summary.Metrics(options);
}

}  // namespace kcc
