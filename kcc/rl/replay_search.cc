#include "kcc/rl/replay_search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>

#include "kcc/base/strings.h"
#include "kcc/rl/own_kernel.h"

namespace kcc {
namespace {

using Open = RlThresholdFamily::Open;

// Fifteen digits: enough for 1 + 1.234e-11, too few for the noise of a double.
std::string ShortNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

constexpr size_t kCoarse = 17, kFine = 5;  // thresholds that one visit looks at

// At most four significant digits, not below the value, as a decimal that people would write:
// 1.2345678 is 1.235, and not 1.2350000000000001.
double RoundedUp(double value) {
  if (!(value > 0) || !std::isfinite(value)) return value;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 3);
  const double rounded = std::ceil(value / unit * (1 - 1e-12)) * unit;
  return ParseNumber(ReadableNumber(rounded)).value_or(rounded);
}

// Ratios are near 1: it is their distance from it that has four digits.
double RatioRoundedUp(double ratio) {
  return ParseNumber(ShortNumber(1 + RoundedUp(ratio - 1))).value_or(ratio);
}

// 1/c, rounded down in the same way.
double Inverse(double c) {
  const double low = 1 - RoundedUp(1 - 1 / c);
  return ParseNumber(ShortNumber(std::max(0.0, low))).value_or(low);
}

RlThresholdFamily OpenWeight(RlWeightMode mode, RlLevel level) {
  RlThresholdFamily family;
  family.correction.weight = {mode, level, 0, 2, false};
  family.open = mode == RlWeightMode::kTruncate ? Open::kCap : Open::kBand;
  return family;
}

RlThresholdFamily OpenRejection(RlStatistic statistic, RlAggregate aggregate,
                                const RlWeightRule& weight = {}) {
  RlThresholdFamily family;
  family.correction.weight = weight;
  family.correction.reject = {{statistic, aggregate, 0, 2}};
  return family;
}

// Looks at thresholds by rank and remembers what it saw.
class Search {
 public:
  Search(const RlBatch& batch, const RlThresholdFamily& family, const RlReplayOptions& options)
      : batch_(batch), family_(family), options_(options) {}

  // None: no threshold qualifies, or the best one does nothing.
  Result<std::optional<RlReplayRow>> Run() {
    KCC_TRY(thresholds_, ThresholdsOf(batch_, family_));
    if (thresholds_.empty()) return std::optional<RlReplayRow>();
    size_t low = 0, high = thresholds_.size() - 1;
    for (size_t points = kCoarse;; points = kFine) {
      const size_t step = std::max<size_t>(1, (high - low) / (points - 1));
      for (size_t rank = low; rank < high; rank += step) KCC_TRY_VOID(Visit(rank));
      KCC_TRY_VOID(Visit(high));
      if (!best_ || step == 1) break;
      low = best_rank_ > step ? best_rank_ - step : 0;
      high = std::min(thresholds_.size() - 1, best_rank_ + step);
    }
    if (best_ && IsIdle(*best_)) best_.reset();
    return best_;
  }

 private:
  Result<> Visit(size_t rank) {
    if (!seen_.insert(rank).second) return {};
    KCC_TRY(RlReplayRow row, ReplayOne(batch_, AtThreshold(family_, thresholds_[rank]), options_));
    if (UnfitOf(row, options_) != RlUnfit::kFits) return {};
    const double score = ReplayScore(row, options_);
    // Of equals the one that does less: the larger threshold.
    if (!(score < score_ || (score == score_ && rank > best_rank_))) return {};
    score_ = score;
    best_rank_ = rank;
    best_ = std::move(row);
    return {};
  }

  bool IsIdle(const RlReplayRow& row) const {
    const RlCorrectionMetrics& f = row.metrics[0];
    return family_.open == Open::kReject ? f.tokens_kept == f.tokens : f.units_outside == 0;
  }

  const RlBatch& batch_;
  const RlThresholdFamily& family_;
  const RlReplayOptions& options_;
  std::vector<double> thresholds_;
  std::set<size_t> seen_;
  std::optional<RlReplayRow> best_;
  size_t best_rank_ = 0;
  double score_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<RlThresholdFamily> ReplayFamilies() {
  using M = RlWeightMode;
  using L = RlLevel;
  using S = RlStatistic;
  using A = RlAggregate;
  const RlWeightRule tis = {M::kTruncate, L::kToken, 0, 2, false};
  const RlWeightRule sequence_tis = {M::kTruncate, L::kSequence, 0, 2, false};
  return {OpenWeight(M::kTruncate, L::kToken),
          OpenWeight(M::kTruncate, L::kSequence),
          OpenWeight(M::kTruncate, L::kSegment),
          OpenWeight(M::kTruncate, L::kGeometric),
          OpenWeight(M::kClip, L::kToken),
          OpenWeight(M::kClip, L::kGeometric),
          OpenWeight(M::kMask, L::kToken),
          OpenWeight(M::kMask, L::kSequence),
          OpenRejection(S::kRatio, A::kTokenwise),
          OpenRejection(S::kRatio, A::kSequenceSum),
          OpenRejection(S::kRatio, A::kSegmentSum),
          OpenRejection(S::kRatio, A::kSequenceMean),
          OpenRejection(S::kK3, A::kSequenceMean),
          OpenRejection(S::kK2, A::kSequenceMax),
          OpenRejection(S::kK3, A::kTokenwise),
          OpenRejection(S::kRatio, A::kSequenceMean, tis),
          OpenRejection(S::kK3, A::kSequenceMean, tis),
          OpenRejection(S::kRatio, A::kSequenceSum, sequence_tis)};
}

RlCorrection AtThreshold(const RlThresholdFamily& family, double threshold) {
  RlCorrection correction = family.correction;
  const bool rejects = family.open == Open::kReject;
  const bool banded =
      rejects ? correction.reject[0].statistic == RlStatistic::kRatio : family.open == Open::kBand;
  double& low = rejects ? correction.reject[0].low : correction.weight.low;
  (rejects ? correction.reject[0].high : correction.weight.high) = threshold;
  low = banded ? Inverse(threshold) : 0;
  return correction;
}

Result<std::vector<double>> ThresholdsOf(const RlBatch& batch, const RlThresholdFamily& family) {
  const bool rejects = family.open == Open::kReject;
  const RlStatistic statistic =
      rejects ? family.correction.reject[0].statistic : RlStatistic::kRatio;
  const RlAggregate aggregate = rejects ? family.correction.reject[0].aggregate
                                        : RlAggregateOf(family.correction.weight.level);
  KCC_TRY(std::vector<double> values, UnitStatistics(batch, statistic, aggregate));
  const bool is_ratio = statistic == RlStatistic::kRatio;
  std::vector<double> thresholds;
  for (const double value : values) {
    const double threshold = is_ratio ? RatioRoundedUp(value) : RoundedUp(value);
    // Beyond what settings can say, or a band of nothing but 1.
    if (!(threshold < 1e6) || threshold <= (is_ratio ? 1 : 0)) continue;
    if (thresholds.empty() || threshold > thresholds.back()) thresholds.push_back(threshold);
  }
  return thresholds;
}

Result<RlReplay> ReplayAndSearch(const RlBatch& batch, const RlReplayOptions& options) {
  std::vector<RlCorrection> corrections = ReplayGrid();
  const size_t grid = corrections.size();
  for (const RlThresholdFamily& family : ReplayFamilies()) {
    KCC_TRY(const std::optional<RlReplayRow> found, Search(batch, family, options).Run());
    if (!found) continue;
    if (std::find(corrections.begin(), corrections.end(), found->correction) == corrections.end()) {
      corrections.push_back(found->correction);
    }
  }
  KCC_TRY(RlReplay replay, ReplayRl(batch, corrections, options));
  for (size_t i = grid; i < replay.rows.size(); ++i) replay.rows[i].searched = true;
  if (replay.recommended < 0) return replay;
  const RlReplayRow& row = replay.rows[static_cast<size_t>(replay.recommended)];
  KCC_TRY(const auto owns, OwnKernelOf(batch, row.correction, options.threads));
  for (const RlOwnKernel& own : owns) {
    replay.reason += "; the kernel's own " + OwnKernelText(own);
  }
  return replay;
}

}  // namespace kcc
