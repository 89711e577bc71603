#include "kcc/bounds/implied.h"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/bounds/chain.h"
#include "kcc/bounds/rounding.h"
#include "kcc/bounds/sequence.h"

namespace kcc {
namespace {

// A ceiling this close to what holds of any two kernels is called vacuous.
constexpr double kVacuousShare = 0.99;

// Sampled-token quantities speak of infer's own tokens: their means are expectations under infer.
struct DriftQuantity {
  std::string_view id;
  DriftForm form;
  bool sampled;    // from the sampled token: true only if infer chose the tokens
  bool mean_only;  // single values are no divergence
};
constexpr std::array<DriftQuantity, 12> kDriftQuantities = {{
    {"logit_span", DriftForm::kSpan, false, false},
    {"logit_linf", DriftForm::kLinf, false, false},
    {"raw_logit_linf", DriftForm::kLinf, false, false},
    {"logit_l2", DriftForm::kL2, false, false},
    {"raw_logit_l2", DriftForm::kL2, false, false},
    {"tv", DriftForm::kTv, false, false},
    {"kl", DriftForm::kKl, false, false},
    {"reverse_kl", DriftForm::kKl, false, false},
    {"abs_log_ratio", DriftForm::kAbsLogRatio, true, false},
    {"w_log_w", DriftForm::kKl, true, true},
    {"k1", DriftForm::kKl, true, true},
    {"k3", DriftForm::kKl, true, true},
}};

const DriftQuantity* DriftOf(const Clause& clause) {
  if (clause.bound != BoundKind::kAtMost || clause.threshold < 0) return nullptr;
  for (const DriftQuantity& row : kDriftQuantities) {
    if (row.id != clause.metric.quantity->id) continue;
    return row.mean_only && clause.metric.aggregate != Aggregate::kMean ? nullptr : &row;
  }
  return nullptr;
}

// The mean total variation of one token, over the slice (or over a soft clause's windows).
std::optional<double> MeanTv(const Clause& clause, const DriftQuantity& drift, double temperature) {
  double tv = 0;
  const Aggregate aggregate = clause.metric.aggregate;
  const int ppm = PercentilePpm(aggregate);
  constexpr int kMedianPpm = 500'000;
  constexpr int kWholePpm = 1'000'000;
  if (aggregate == Aggregate::kRate) {
    tv = std::fmin(1.0, clause.threshold);
  } else if (aggregate == Aggregate::kMean || ppm >= kMedianPpm) {
    const double beyond = ppm < 0 ? 0 : static_cast<double>(kWholePpm - ppm) / kWholePpm;
    tv = TvOfDrift(drift.form, clause.threshold, temperature);
    tv = RoundUpToOne((1 - beyond) * tv + beyond);
  } else {
    return {};  // a low percentile leaves most tokens free
  }
  return clause.hard() ? tv : RoundUpToOne((1 - clause.exceedance) * tv + clause.exceedance);
}

double SequenceTv(const Clause& clause, const DriftQuantity& drift, double mean_tv,
                  double temperature, int64_t tokens) {
  const double hybrid = SequenceTvOfMeanTokenTv(mean_tv, tokens);
  if (!clause.hard()) return hybrid;
  const auto least = [&](double other) { return std::fmin(hybrid, other); };
  if (clause.metric.aggregate == Aggregate::kMax && !drift.sampled) {
    return least(SequenceTvOfDrift(drift.form, clause.threshold, temperature, tokens));
  }
  if (clause.metric.aggregate == Aggregate::kMean && drift.form == DriftForm::kKl) {
    return least(SequenceTvOfMeanDrift(drift.form, clause.threshold, temperature, tokens));
  }
  return hybrid;
}

}  // namespace

std::vector<Implication> ImplicationsOf(const Clause& clause, const Assumptions& assumptions) {
  const DriftQuantity* drift = DriftOf(clause);
  if (drift == nullptr) return {};
  const auto tv = MeanTv(clause, *drift, assumptions.temperature);
  if (!tv) return {};
  const bool everywhere = clause.hard() && clause.metric.aggregate == Aggregate::kMax;
  const std::string who = drift->sampled ? ", where infer chose the tokens" : "";
  const std::string whole = drift->sampled || everywhere ? who : ", where infer chose the tokens";
  std::vector<Implication> rows;
  const auto add = [&](std::string_view quantity, std::string text, double value, double most) {
    rows.push_back({quantity, std::move(text), value, value >= kVacuousShare * most});
  };
  add("tv",
      std::string(everywhere && !drift->sampled ? "total variation of every token"
                                                : "mean total variation of a token") +
          who,
      *tv, 1);
  if (assumptions.reward_max) {
    const double r = *assumptions.reward_max;
    const std::string rewards = ", |reward| ≤ " + ShortestNumber(r);
    add("reward_drift", "reward drift that one token can cause" + rewards + who,
        RewardDriftOfTv(*tv, r, RewardRange::kMinusRToR), 2 * r);
    if (assumptions.tokens_max) {
      const int64_t tokens = *assumptions.tokens_max;
      const double sequence = SequenceTv(clause, *drift, *tv, assumptions.temperature, tokens);
      add("sequence_reward_drift",
          "reward drift of continuations of up to " + std::to_string(tokens) + " tokens" + rewards +
              whole,
          RewardDriftOfTv(sequence, r, RewardRange::kMinusRToR), 2 * r);
    }
  }
  if (assumptions.advantage_max && assumptions.score_norm_max) {
    const double a = *assumptions.advantage_max;
    const double g = *assumptions.score_norm_max;
    add("gradient_bias",
        "bias of the uncorrected policy gradient at a token, |advantage| ≤ " + ShortestNumber(a) +
            ", score norm ≤ " + ShortestNumber(g) + who,
        GradientBiasOfTv(*tv, a, g), 2 * a * g);
  }
  return rows;
}

std::vector<std::string_view> AssumptionsMissing(const Assumptions& assumptions) {
  std::vector<std::string_view> missing;
  if (!assumptions.reward_max) missing.push_back("rewardMax");
  if (!assumptions.advantage_max) missing.push_back("advantageMax");
  if (!assumptions.score_norm_max) missing.push_back("scoreNormMax");
  return missing;
}

}  // namespace kcc
