// Replay: the grid, the Pareto front and the recommendation.
#include "kcc/rl/replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

RlCorrection Weighted(RlWeightMode mode, RlLevel level, double low, double high) {
  RlCorrection correction;
  correction.weight = {mode, level, low, high, false};
  return correction;
}

RlCorrection Rejecting(RlStatistic statistic, RlAggregate aggregate, double low, double high) {
  RlCorrection correction;
  correction.reject = {{statistic, aggregate, low, high}};
  return correction;
}

double BiasOf(const RlCorrectionMetrics& f, bool outcome) {
  return outcome ? f.bias_sequence : f.bias_token;
}

void MarkPareto(bool outcome, std::vector<RlReplayRow>* rows) {
  for (RlReplayRow& row : *rows) {
    const double bias = BiasOf(row.metrics[0], outcome);
    const double variance = row.metrics[0].variance;
    row.pareto = std::isfinite(bias) && std::isfinite(variance) && row.metrics[0].tokens_kept > 0;
    for (const RlReplayRow& other : *rows) {
      if (other.metrics[0].tokens_kept == 0) continue;
      const double b = BiasOf(other.metrics[0], outcome);
      const double v = other.metrics[0].variance;
      if (b <= bias && v <= variance && (b < bias || v < variance)) row.pareto = false;
    }
  }
}

// The same tokens lost, by rejection: a band of weights is one of ratios.
RlCorrection RejectingWhatItMasks(const RlCorrection& correction) {
  RlCorrection rejecting = correction;
  const RlWeightRule& weight = correction.weight;
  rejecting.weight = {};
  rejecting.reject.push_back(
      {RlStatistic::kRatio, RlAggregateOf(weight.level), weight.low, weight.high});
  return rejecting;
}

void FillKept(const std::vector<RlCorrectionMetrics>& metrics, RlReplayRow* row) {
  for (const RlCorrectionMetrics& f : metrics) {
    if (f.tokens == 0) continue;
    const double kept = static_cast<double>(f.tokens_kept) / static_cast<double>(f.tokens);
    if (kept >= row->kept_min) continue;
    row->kept_min = kept;
    row->kept_min_slice = f.slice;
  }
}

}  // namespace

std::vector<RlCorrection> ReplayGrid() {
  using M = RlWeightMode;
  using L = RlLevel;
  using S = RlStatistic;
  using A = RlAggregate;
  std::vector<RlCorrection> grid = {RlCorrection()};
  for (const L level : kRlLevels) grid.push_back(Weighted(M::kFull, level, 0, 2));
  for (const double c : {1.5, 2.0, 3.0, 5.0})
    grid.push_back(Weighted(M::kTruncate, L::kToken, 0, c));
  for (const double eps : {0.1, 0.2, 0.5}) grid.push_back(PaperCorrection(eps));
  for (const auto& [low, high] : {std::pair(0.8, 1.25), {0.5, 2.0}, {0.5, 5.0}}) {
    grid.push_back(Weighted(M::kMask, L::kToken, low, high));
  }
  for (const L level : {L::kSequence, L::kSegment}) {
    for (const double c : {2.0, 5.0, 10.0}) grid.push_back(Weighted(M::kTruncate, level, 0, c));
  }
  grid.push_back(Weighted(M::kMask, L::kSequence, 0.5, 2));
  grid.push_back(Weighted(M::kMask, L::kSequence, 0, 3));
  grid.push_back(Weighted(M::kClip, L::kGeometric, 0.99, 1.01));
  grid.push_back(Weighted(M::kTruncate, L::kGeometric, 0, 1.05));
  grid.push_back(Rejecting(S::kRatio, A::kTokenwise, 0.5, 2));
  grid.push_back(Rejecting(S::kRatio, A::kSequenceSum, 0.5, 2));
  grid.push_back(Rejecting(S::kRatio, A::kSegmentSum, 0.5, 2));
  for (const double width : {0.001, 0.01, 0.05}) {
    grid.push_back(Rejecting(S::kRatio, A::kSequenceMean, 1 - width, 1 + width));
  }
  for (const double k : {0.001, 0.01}) grid.push_back(Rejecting(S::kK3, A::kSequenceMean, 0, k));
  grid.push_back(Rejecting(S::kK2, A::kSequenceMax, 0, 1));
  grid.push_back(Rejecting(S::kK3, A::kTokenwise, 0, 0.5));
  RlCorrection veto;
  veto.veto = RlVeto{1e-4, 0};
  grid.push_back(veto);
  // Together: what frameworks ship as presets.
  for (const double width : {0.001, 0.01}) {
    RlCorrection both = Weighted(M::kTruncate, L::kToken, 0, 2);
    both.reject = {{S::kRatio, A::kSequenceMean, 1 - width, 1 + width}};
    grid.push_back(both);
  }
  RlCorrection k3 = Weighted(M::kTruncate, L::kToken, 0, 2);
  k3.reject = {{S::kK3, A::kSequenceMean, 0, 0.01}};
  grid.push_back(k3);
  RlCorrection guarded = Weighted(M::kTruncate, L::kToken, 0, 2);
  guarded.veto = RlVeto{1e-4, 0};
  grid.push_back(guarded);
  RlCorrection product = Weighted(M::kTruncate, L::kSequence, 0, 2);
  product.reject = {{S::kRatio, A::kSequenceSum, 0.5, 2}};
  grid.push_back(product);
  return grid;
}

Result<RlReplayRow> ReplayOne(const RlBatch& batch, const RlCorrection& correction,
                              const RlReplayOptions& options) {
  RlReplayRow row;
  row.correction = correction;
  KCC_TRY(row.metrics, CorrectRl(batch, correction, {}, options.threads));
  if (options.masked_is_lost && correction.weight.mode == RlWeightMode::kMask) {
    KCC_TRY(const auto rejected,
            CorrectRl(batch, RejectingWhatItMasks(correction), {}, options.threads));
    FillKept(rejected, &row);
  } else {
    FillKept(row.metrics, &row);
  }
  return row;
}

RlUnfit UnfitOf(const RlReplayRow& row, const RlReplayOptions& options) {
  const RlCorrectionMetrics& f = row.metrics[0];
  if (row.kept_min < options.kept_min) return RlUnfit::kKeepsTooLittle;
  if (!(f.ess >= options.ess_min)) return RlUnfit::kTooThin;
  if (!(std::fabs(f.mean_weight - 1) <= options.mean_weight_tolerance)) {
    return RlUnfit::kMeanWeightOff;
  }
  return RlUnfit::kFits;
}

double ReplayScore(const RlReplayRow& row, const RlReplayOptions& options) {
  const RlCorrectionMetrics& f = row.metrics[0];
  const double bias = BiasOf(f, options.outcome_advantages);
  return bias * bias + f.variance / static_cast<double>(std::max<int64_t>(1, f.rows));
}

int RecommendRl(const RlReplay& replay, const RlReplayOptions& options,
                const RlCorrectionTest& allowed, std::string* reason) {
  int recommended = -1;
  double best = std::numeric_limits<double>::infinity();
  std::array<int, 4> count{};  // by RlUnfit
  for (size_t i = 0; i < replay.rows.size(); ++i) {
    const RlReplayRow& row = replay.rows[i];
    if (!allowed(row.correction)) continue;
    const RlUnfit unfit = UnfitOf(row, options);
    ++count[static_cast<size_t>(unfit)];
    if (unfit != RlUnfit::kFits) continue;
    const double score = ReplayScore(row, options);
    if (!(score < best)) continue;
    best = score;
    recommended = static_cast<int>(i);
  }
  if (recommended < 0) {
    *reason = "none keeps " + ReadableNumber(100 * options.kept_min) +
              " % of every slice with an effective sample size of " +
              ReadableNumber(options.ess_min) +
              " and a mean weight near 1: close the gap before correcting it";
    return recommended;
  }
  const RlCorrectionMetrics& f = replay.rows[static_cast<size_t>(recommended)].metrics[0];
  *reason = "least bias^2 + variance/rows (" + ReadableNumber(best) + ": bias " +
            ReadableNumber(BiasOf(f, options.outcome_advantages)) + ", E phi^2 " +
            ReadableNumber(f.variance) + ") of those that keep " +
            ReadableNumber(100 * options.kept_min) +
            " % of every slice and an effective sample size of " + ReadableNumber(options.ess_min) +
            "; " + std::to_string(count[1]) + " keep too little, " + std::to_string(count[2]) +
            " are too thin, " + std::to_string(count[3]) + " have a mean weight off 1";
  return recommended;
}

Result<RlReplay> ReplayRl(const RlBatch& batch, std::span<const RlCorrection> grid,
                          const RlReplayOptions& options) {
  RlReplay replay;
  for (const RlCorrection& correction : grid) {
    KCC_TRY(RlReplayRow row, ReplayOne(batch, correction, options));
    replay.rows.push_back(std::move(row));
  }
  if (replay.rows.empty() || replay.rows[0].metrics[0].tokens == 0) {
    return BrokenEvidenceError("the dump has no valid token: there is nothing to replay");
  }
  MarkPareto(options.outcome_advantages, &replay.rows);
  const auto any = [](const RlCorrection&) { return true; };
  replay.recommended = RecommendRl(replay, options, any, &replay.reason);
  return replay;
}

}  // namespace kcc
