#include "kcc/experiment/e3_run.h"

#include <algorithm>
#include <cmath>

#include "kcc/author/limits.h"
#include "kcc/experiment/experiment_page.h"

namespace kcc {
namespace {

constexpr double kFallenShare = 0.5, kStillUpShare = 0.75;
constexpr double kLevel = 0.05;

constexpr E3Column kColumns[] = {
    {"metrics token.mean_abs_log_ratio", "mean abs log-ratio"},
    {"metrics token.mean_k1", "k1"},
    {"metrics token.mean_k2", "k2"},
    {"metrics token.mean_k3", "k3"},
    {"metrics token.ess", "ESS"},
    {"metrics token.mean_w", "mean w"},
    {"correction keptShare", "kept"},
    {"metrics skew.positive", "skew, A > 0"},
    {"metrics skew.negative", "skew, A < 0"},
    {"metrics token.mean_tv", "TV of a token"},
    {"correction biasToken", "E|w − φ|"},
    {"correction biasSequence", "E|W − φ|"},
    {"klToReference", "KL to reference"},
    {"gradientLength", "gradient"},
    {"clip high", "clipped above"},
    {"clip low", "clipped below"},
};

const Curve* CurveOf(const RunCurves& curves, std::string_view key) {
  const auto found = curves.curves.find(key);
  return found == curves.curves.end() || found->second.empty() ? nullptr : &found->second;
}

// The mean over steps in (from, to]; none: there are none that are finite.
std::optional<double> MeanOver(const Curve& curve, double from, double to) {
  double sum = 0, count = 0;
  for (const CurvePoint& point : curve) {
    if (point.step <= from || point.step > to || !std::isfinite(point.value)) continue;
    sum += point.value;
    ++count;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

struct Windows {
  double size = 1;       // steps of the early one
  double late_from = 0;  // the late one begins after this step
};
Windows WindowsOf(double steps) {
  const double third = std::max(1.0, std::floor(steps / 3));
  return {std::min(third, static_cast<double>(kE3WindowMax)), steps - third};
}

// The last step of the first window whose mean reward is below `limit`; beyond the first window.
std::optional<double> FallOf(const Curve& reward, double size, double last_step, double limit) {
  for (double step = 2 * size; step <= last_step; ++step) {
    const auto mean = MeanOver(reward, step - size, step);
    if (mean && *mean < limit) return step;
  }
  return std::nullopt;
}

// What kind of failure, and when.
void ReadFailure(const RunCurves& curves, const Windows& windows, E3Run* run) {
  const Curve& reward = *CurveOf(curves, "reward");
  const double first = MeanOver(reward, 0, windows.size).value_or(0);
  const double last = MeanOver(reward, windows.late_from, curves.last_step).value_or(0);
  const auto fell = FallOf(reward, windows.size, curves.last_step, kFallenShare * first);
  if (!fell || first <= 0) {
    const bool hacked =
        last > first + kRewardMoved && run->reward_train < run->start_train - kRewardMoved;
    run->failure = hacked ? E3Failure::kRewardHacking : E3Failure::kNone;
    return;
  }
  run->fell = static_cast<int64_t>(*fell);
  const double before_to = *fell - windows.size;
  const auto before = MeanOver(reward, before_to - windows.size, before_to);
  const Curve* kl = CurveOf(curves, "klToReference");
  const auto moved = kl ? MeanOver(*kl, before_to, *fell) : std::nullopt;
  run->failure = moved && *moved > kCollapsedKl              ? E3Failure::kKlCollapse
                 : before && *before > kStillUpShare * first ? E3Failure::kSuddenDrop
                                                             : E3Failure::kDecline;
  const Curve* k3 = CurveOf(curves, "metrics token.mean_k3");
  if (k3 == nullptr) return;
  const auto early = MeanOver(*k3, 0, windows.size);
  const auto late = MeanOver(*k3, before_to - windows.size, before_to);
  if (early && late && *early > 0) run->k3_before_fall = *late / *early;
}

void ReadViolations(const RunCurves& curves, E3Run* run) {
  run->clauses = curves.clauses;
  for (const ClauseStrip& strip : curves.clauses) {
    for (const auto& [step, verdict] : strip.verdicts) {
      if (verdict != "violated") continue;
      const auto at = static_cast<int64_t>(step);
      if (!run->first_violation || at < run->first_violation->step) {
        run->first_violation = E3Violation{strip.name, at};
      }
      break;
    }
  }
}

}  // namespace

std::string_view Name(E3Failure failure) {
  switch (failure) {
    case E3Failure::kNone:
      return "none";
    case E3Failure::kKlCollapse:
      return "KL collapse";
    case E3Failure::kRewardHacking:
      return "reward hacking";
    case E3Failure::kSuddenDrop:
      return "sudden drop";
    case E3Failure::kDecline:
      return "decline";
  }
  return "";
}

std::span<const E3Column> E3Columns() { return kColumns; }

std::optional<double> E3Run::late(std::string_view name) const {
  for (size_t c = 0; c < columns.size(); ++c) {
    if (kColumns[c].name == name && columns[c]) return columns[c]->late;
  }
  return std::nullopt;
}

Result<E3Run> ReadE3Run(const RunCurves& curves, uint64_t seed) {
  const Curve* train = CurveOf(curves, "held out rewardTrain");
  const Curve* infer = CurveOf(curves, "held out rewardInfer");
  const Curve* tokens = CurveOf(curves, "tokens");
  if (train == nullptr || infer == nullptr || tokens == nullptr ||
      CurveOf(curves, "reward") == nullptr) {
    return BrokenEvidenceError("the logs of the run '" + curves.name + "' lack rewards");
  }
  E3Run run;
  run.seed = seed;
  run.steps = static_cast<int64_t>(curves.last_step);
  const Windows windows = WindowsOf(curves.last_step);
  run.start_train = train->front().value;
  run.start_infer = infer->front().value;
  run.reward_train = MeanOver(*train, windows.late_from, curves.last_step).value_or(0);
  run.reward_infer = MeanOver(*infer, windows.late_from, curves.last_step).value_or(0);
  for (const E3Column& column : kColumns) {
    std::optional<E3Window> window;
    if (const Curve* curve = CurveOf(curves, column.key)) {
      const auto early = MeanOver(*curve, 0, windows.size);
      const auto late = MeanOver(*curve, windows.late_from, curves.last_step);
      if (early && late) window = E3Window{*early, *late};
    }
    run.columns.push_back(window);
  }
  for (const CurvePoint& point : *tokens) run.tokens += static_cast<int64_t>(point.value);
  ReadFailure(curves, windows, &run);
  ReadViolations(curves, &run);
  return run;
}

E3Estimate StudentEstimate(std::span<const double> values) {
  E3Estimate made;
  const auto count = static_cast<double>(values.size());
  made.runs = static_cast<int64_t>(values.size());
  for (const double value : values) made.mean += value / count;
  if (values.size() < 2) return made;
  double squares = 0;
  for (const double value : values) squares += (value - made.mean) * (value - made.mean);
  made.half = StudentUpper(count - 1, kLevel / 2) * std::sqrt(squares / (count - 1) / count);
  return made;
}

std::optional<E3Estimate> PairedDifference(const std::map<uint64_t, double>& a,
                                           const std::map<uint64_t, double>& b) {
  std::vector<double> differences;
  for (const auto& [seed, value] : a) {
    const auto other = b.find(seed);
    if (other != b.end()) differences.push_back(value - other->second);
  }
  if (differences.empty()) return std::nullopt;
  return StudentEstimate(differences);
}

std::string EstimateText(const E3Estimate& estimate) {
  return FixedNumber(estimate.mean, 3) +
         (estimate.half ? " ± " + FixedNumber(*estimate.half, 3) : " (1 run)");
}

}  // namespace kcc
