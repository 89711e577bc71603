#include "kcc/rl/lint_training.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/rl/own_kernel.h"
#include "kcc/rl/training_evidence.h"

namespace kcc {
namespace {

constexpr double kEqualShare = 0.9999;  // of the tokens: old is rollout
// Two kernels that are noisy around the trained one, the same noise in every call, give -0.5 where
// nothing is stale.
constexpr double kCorrelationMax = -0.6;
constexpr int64_t kOldTokensMin = 100;
constexpr double kGapHeld = 1;  // nats: one token is not to decide a correlation

// Train, old and rollout at the same tokens: s = train - old, m = old - rollout.
struct OldGaps {
  int64_t tokens = 0, equal_rollout = 0;
  double abs_s = 0, square_s = 0, square_m = 0, product = 0;  // sums

  double correlation() const {
    const double scale = std::sqrt(square_s * square_m);
    return scale > 0 ? product / scale : 0;
  }
  // Mean |deviation| of old from the trained kernel: of s, the part that m takes back.
  double deviation() const {
    const double share = square_s > 0 ? std::clamp(-product / square_s, 0.0, 1.0) : 0;
    return abs_s / static_cast<double>(tokens) * std::sqrt(share);
  }
  bool is_rollout() const {
    return static_cast<double>(equal_rollout) >= kEqualShare * static_cast<double>(tokens);
  }
};

Result<OldGaps> CompareOld(const RlBatch& batch) {
  OldGaps gaps;
  RlRow row;
  for (int64_t r = 0; r < batch.rows; ++r) {
    KCC_TRY_VOID(row.Load(batch, r));
    for (size_t i = 0; i < static_cast<size_t>(row.tokens); ++i) {
      const double s = row.train[i] - row.old[i], m = row.old[i] - row.rollout[i];
      if (std::isnan(s) || std::isnan(m)) continue;
      ++gaps.tokens;
      gaps.equal_rollout += m == 0;
      const double held_s = std::clamp(s, -kGapHeld, kGapHeld);
      const double held_m = std::clamp(m, -kGapHeld, kGapHeld);
      gaps.abs_s += std::fabs(held_s);
      gaps.square_s += held_s * held_s;
      gaps.square_m += held_m * held_m;
      gaps.product += held_s * held_m;
    }
  }
  return gaps;
}

std::string Page() { return " (" + std::string(kE3Page) + ")"; }

RlTrainingFinding Bypass(const RlMetrics& metrics, bool seen) {
  const RlLevelMetrics& gap = metrics.at(RlLevel::kToken);
  RlTrainingFinding finding;
  finding.fault = RlTrainingFault::kBypassMismatch;
  const E3Kernel* reached = E3Reached(gap.mean_abs_log_ratio, gap.k3);
  const E3Kernel& line = reached == nullptr ? E3Kernels().front() : *reached;
  // A token without a chance on one side is in neither mean.
  finding.is_note = reached == nullptr && metrics.zero_ratio + metrics.infinite_ratio == 0;
  finding.message = std::string(seen ? "old log-probs are the rollout's (bypass)" : "bypass") +
                    " at mean |log w| " + ReadableNumber(gap.mean_abs_log_ratio) + ", k3 " +
                    ReadableNumber(gap.k3) + ": E3, " + E3GapText(gap.mean_abs_log_ratio, gap.k3) +
                    Page();
  finding.evidence = {{"mean |log ratio|", gap.mean_abs_log_ratio, line.mean_abs_log_ratio},
                      {"k3", gap.k3, line.k3}};
  return finding;
}

RlTrainingFinding BelowOwn(const RlOwnKernel& own) {
  RlTrainingFinding finding;
  finding.fault = RlTrainingFault::kBelowOwnKernel;
  RlCorrection alone;
  alone.reject = {own.rule};
  const std::string rule = DescribeCorrection(alone);
  finding.message =
      own.setting + " (" + rule.substr(rule.find("reject")) + ") keeps " +
      ReadableNumber(100 * own.kept()) + " % of the tokens: the kernel's own gap is there, " +
      OwnKernelText(own) +
      ". E3: rejections that kept 50 and 53 % at the start changed the reward by -0.189 "
      "and -0.162, one that kept 80 % by -0.058; those that kept 93 % were not told "
      "from none" +
      Page();
  finding.evidence = {{"share kept", own.kept(), kRlKeptShareMin}};
  for (const RlOwnQuantile& quantile : own.quantiles) {
    finding.evidence.push_back(
        {"own p" + ReadableNumber(100 * quantile.p), quantile.value, own.rule.high});
  }
  return finding;
}

RlTrainingFinding OtherKernel(const OldGaps& gaps) {
  RlTrainingFinding finding;
  finding.fault = RlTrainingFault::kOldOfOtherKernel;
  finding.message =
      "old log-probs do not lie between train and rollout: what takes old off rollout "
      "is taken back on the way to train (correlation " +
      ReadableNumber(gaps.correlation()) +
      "), so old is of another kernel than the one that is trained, off it by " +
      ReadableNumber(gaps.deviation()) +
      " on average. E3: training f32 with old log-probs by int4 destroyed the policy "
      "in 3 of 3 seeds when f32 sampled, though train and rollout were equal" +
      Page();
  finding.evidence = {
      {"correlation of train - old with old - rollout", gaps.correlation(), kCorrelationMax},
      {"mean |old's deviation|", gaps.deviation(), E3Kernels().front().mean_abs_log_ratio}};
  return finding;
}

}  // namespace

std::string_view RlTrainingFaultName(RlTrainingFault fault) {
  switch (fault) {
    case RlTrainingFault::kBypassMismatch:
      return "bypass_mismatch";
    case RlTrainingFault::kBelowOwnKernel:
      return "below_own_kernel";
    case RlTrainingFault::kOldOfOtherKernel:
      return "old_of_other_kernel";
  }
  return "";
}

std::string_view RlTrainingFaultAdvice(RlTrainingFault fault) {
  switch (fault) {
    case RlTrainingFault::kBypassMismatch:
      return "recompute old log-probs with the kernel that is trained, or close the gap";
    case RlTrainingFault::kBelowOwnKernel:
      return "raise the threshold above what the kernel itself shows (kcc rl replay), or reject "
             "nothing";
    case RlTrainingFault::kOldOfOtherKernel:
      return "compute old log-probs with the very kernel whose gradient is taken";
  }
  return "";
}

Result<std::vector<RlTrainingFinding>> LintTraining(const RlBatch& batch,
                                                    const RlTrainingSettings& settings,
                                                    int threads) {
  std::vector<RlTrainingFinding> findings;
  OldGaps gaps;
  if (batch.old) {
    KCC_TRY(gaps, CompareOld(batch));
  }
  const bool old_is_rollout = gaps.tokens > 0 && gaps.is_rollout();
  RlBatch own = batch;
  if (old_is_rollout) own.old = {};  // it says nothing of the trained kernel
  KCC_TRY(const RlMetrics metrics, DiagnoseRl(OwnGapOf(own), {}, threads));
  if (metrics.tokens == 0) return findings;
  // Where all three are one array nothing was compared, which is another finding's business.
  const bool seen = old_is_rollout && !(metrics.at(RlLevel::kToken).mean_abs_log_ratio == 0);
  if (settings.bypass || seen) findings.push_back(Bypass(metrics, seen));
  if (gaps.tokens >= kOldTokensMin && gaps.correlation() <= kCorrelationMax &&
      gaps.deviation() >= E3Kernels().front().mean_abs_log_ratio) {
    findings.push_back(OtherKernel(gaps));
  }
  KCC_TRY(const auto rules, OwnKernelOf(own, settings.correction, threads));
  for (const RlOwnKernel& rule : rules) {
    if (rule.below_own()) findings.push_back(BelowOwn(rule));
  }
  return findings;
}

}  // namespace kcc
