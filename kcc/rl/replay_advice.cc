#include "kcc/rl/replay_advice.h"

#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/published.h"
#include "kcc/rl/training_evidence.h"

namespace kcc {
namespace {

// Below it a mean of k3 says little: a few tokens carry it.
constexpr int64_t kTokensMin = 1000;

// The slice (or everything) with the largest k3, and whether all of them are known and bounded.
struct WorstK3 {
  double k3 = 0;
  std::string slice;
  bool known = true;
};

Result<WorstK3> FindWorst(const RlBatch& batch, int threads) {
  RlSummary summary;
  KCC_TRY_VOID(summary.Add(batch, threads));
  KCC_TRY(const RlMetrics all, summary.Metrics());
  WorstK3 worst{all.at(RlLevel::kToken).k3, "", all.zero_ratio + all.infinite_ratio == 0};
  for (const std::string& name : summary.slices()) {
    KCC_TRY(const RlMetrics slice, summary.Metrics(name));
    if (slice.tokens == 0) continue;
    const double k3 = slice.at(RlLevel::kToken).k3;
    worst.known = worst.known && !std::isnan(k3);
    if (!(k3 > worst.k3)) continue;
    worst.k3 = k3;
    worst.slice = name;
  }
  worst.known = worst.known && !std::isnan(worst.k3);
  return worst;
}

void JudgeNeed(const WorstK3& worst, const RlReplay& replay, const RlReplayOptions& options,
               RlReplayAdvice* advice) {
  const PublishedBound& bound = PublishedBounds().front();
  const std::string published = std::string(bound.source) + "'s " + ShortestNumber(bound.threshold);
  const RlCorrectionMetrics& off = replay.rows.front().metrics[0];  // the grid starts with it
  const double bias = options.outcome_advantages ? off.bias_sequence : off.bias_token;
  const double noise = std::sqrt(off.variance / static_cast<double>(off.rows));
  const std::string where = worst.slice.empty() ? "" : " on slice " + worst.slice;
  if (!worst.known) {
    advice->need_reason = "one side gives tokens no chance that the other side sampled or scored";
  } else if (!(worst.k3 <= bound.threshold)) {
    advice->need_reason = "k3 is " + ReadableNumber(worst.k3) + where + ", beyond " + published;
  } else if (off.tokens < kTokensMin) {
    advice->need_reason = "k3 is inside " + published + ", but " + std::to_string(off.tokens) +
                          " tokens are too few to rely on it";
  } else if (!(bias <= noise)) {
    advice->need_reason = "k3 is inside " + published +
                          ", but the bias of leaving the gap, up to " + ReadableNumber(bias) +
                          ", is above the noise of a gradient of " + std::to_string(off.rows) +
                          " rows, " + ReadableNumber(noise);
  } else {
    advice->correction_needed = false;
    advice->need_reason = "k3 is at most " + ReadableNumber(worst.k3) + where + ", inside " +
                          published + ", and the bias of leaving the gap, up to " +
                          ReadableNumber(bias) + ", is below the noise of a gradient of " +
                          std::to_string(off.rows) + " rows, " + ReadableNumber(noise);
  }
}

void FillSettings(const RlReplay& replay, const RlReplayOptions& options, RlReplayAdvice* advice) {
  const std::string& dialect = advice->dialect;
  advice->row = advice->correction_needed ? replay.recommended : 0;
  if (advice->row < 0) {
    advice->settings_reason = "there is no correction to recommend";
    return;
  }
  const auto say = [&](int row) {
    return SettingsFor(dialect, replay.rows[static_cast<size_t>(row)].correction);
  };
  advice->settings = say(advice->row);
  if (advice->settings) return;
  const std::string wanted =
      DescribeCorrection(replay.rows[static_cast<size_t>(advice->row)].correction);
  std::string unused;
  advice->row = RecommendRl(
      replay, options,
      [&](const RlCorrection& correction) { return SettingsFor(dialect, correction).has_value(); },
      &unused);
  if (advice->row < 0) {
    advice->settings_reason = dialect + " has no settings for \"" + wanted +
                              "\", nor for any other correction that qualifies";
    return;
  }
  advice->settings = say(advice->row);
  advice->settings_reason =
      dialect + " has no settings for \"" + wanted + "\"; these are of the best that it has: " +
      DescribeCorrection(replay.rows[static_cast<size_t>(advice->row)].correction);
}

Result<std::string> EvidenceOf(const RlBatch& batch, int threads) {
  KCC_TRY(const RlMetrics own, DiagnoseRl(OwnGapOf(batch), {}, threads));
  const RlLevelMetrics& token = own.at(RlLevel::kToken);
  const std::string gap = "mean |log w| " + ReadableNumber(token.mean_abs_log_ratio) + ", k3 " +
                          ReadableNumber(token.k3) + " of " + (batch.old ? "old" : "train") +
                          " against rollout: ";
  if (std::isnan(token.mean_abs_log_ratio) || std::isnan(token.k3)) return gap + "not known";
  return gap + E3GapText(token.mean_abs_log_ratio, token.k3) + " (" + std::string(kE3Page) + ")";
}

}  // namespace

Result<RlReplayAdvice> AdviseRl(const RlBatch& batch, const RlReplay& replay,
                                const RlReplayOptions& options, double epsilon,
                                std::string_view dialect) {
  RlReplayAdvice advice;
  advice.dialect = dialect;
  KCC_TRY(advice.clip, ClipBudget(batch, epsilon));
  KCC_TRY(const WorstK3 worst, FindWorst(batch, options.threads));
  JudgeNeed(worst, replay, options, &advice);
  KCC_TRY(advice.evidence, EvidenceOf(batch, options.threads));
  for (const RlReplayRow& row : replay.rows) {
    KCC_TRY(auto own, OwnKernelOf(batch, row.correction, options.threads));
    advice.own.push_back(std::move(own));
  }
  if (!dialect.empty()) FillSettings(replay, options, &advice);
  return advice;
}

}  // namespace kcc
