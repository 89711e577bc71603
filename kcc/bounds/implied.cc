#include "kcc/bounds/implied.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/bounds/chain.h"
#include "kcc/bounds/rounding.h"
#include "kcc/bounds/sequence.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

// A ceiling this close to what holds of any two kernels is called vacuous.
constexpr double kVacuousShare = 0.99;

struct DriftQuantity {
  std::string_view id;
  DriftForm form;
  bool sampled;    // from the sampled token: an expectation under infer, if infer chose the tokens
  bool mean_only;  // single values are no divergence
  bool reverse;    // KL(infer || train), which adds up over the prefixes that infer draws
  bool support;    // E_infer w = 1 enters: infer must be able to draw whatever train can
};
constexpr std::array<DriftQuantity, 12> kDriftQuantities = {{
    {"logit_span", DriftForm::kSpan, false, false, false, false},
    {"logit_linf", DriftForm::kLinf, false, false, false, false},
    {"raw_logit_linf", DriftForm::kLinf, false, false, false, false},
    {"logit_l2", DriftForm::kL2, false, false, false, false},
    {"raw_logit_l2", DriftForm::kL2, false, false, false, false},
    {"tv", DriftForm::kTv, false, false, false, false},
    {"kl", DriftForm::kKl, false, false, false, false},
    {"reverse_kl", DriftForm::kKl, false, false, true, false},
    {"abs_log_ratio", DriftForm::kAbsLogRatio, true, false, false, false},
    {"w_log_w", DriftForm::kKl, true, true, false, true},
    {"k1", DriftForm::kKl, true, true, true, false},
    {"k3", DriftForm::kKl, true, true, true, true},
}};

const DriftQuantity* DriftOf(const Clause& clause) {
  if (clause.bound != BoundKind::kAtMost || clause.threshold < 0) return nullptr;
  for (const DriftQuantity& row : kDriftQuantities) {
    if (row.id != clause.metric.quantity->id) continue;
    return row.mean_only && clause.metric.aggregate != Aggregate::kMean ? nullptr : &row;
  }
  return nullptr;
}

// One clause's rows.
class Implied {
 public:
  Implied(const Clause& clause, const DriftQuantity& drift, const Assumptions& given,
          Selection selection)
      : clause_(clause), drift_(drift), given_(given), selection_(selection) {}

  std::vector<Implication> Rows() {
    // A sampled quantity speaks of total variation in the expectation only, and an expectation
    // survives a selection only if that was made before the token was drawn.
    if (drift_.sampled && selection_ == Selection::kOutcomes) return {};
    const auto tv = MeanTv();
    if (!tv) return {};
    // A window's sample is no expectation; nor would its mean be one, since what was drawn decides
    // how many tokens it is taken over.
    if (clause_.hard() || !drift_.sampled) OfTokens(*tv);
    const bool by_request = clause_.hard() || clause_.window.kind == Window::Kind::kRequest;
    const bool pathwise = clause_.hard() || !drift_.mean_only;
    if (given_.tokens_max && by_request && pathwise && selection_ == Selection::kAnswers) {
      OfContinuations(SequenceTv(*tv), *given_.tokens_max);
    }
    return std::move(rows_);
  }

 private:
  // The mean total variation of a token, over the slice, or over each window within the threshold.
  std::optional<double> MeanTv() const {
    const Aggregate aggregate = clause_.metric.aggregate;
    const int ppm = PercentilePpm(aggregate);
    constexpr int kMedianPpm = 500'000;
    constexpr int kWholePpm = 1'000'000;
    if (aggregate == Aggregate::kRate) return std::fmin(1.0, clause_.threshold);
    if (aggregate == Aggregate::kMean || ppm >= kMedianPpm) {
      const double beyond = ppm < 0 ? 0 : static_cast<double>(kWholePpm - ppm) / kWholePpm;
      const double tv = TvOfDrift(drift_.form, clause_.threshold, given_.temperature);
      return RoundUpToOne((1 - beyond) * tv + beyond);
    }
    return {};  // a low percentile leaves most tokens free
  }

  bool Everywhere() const { return clause_.metric.aggregate == Aggregate::kMax && !drift_.sampled; }

  // TV(P, Q) of whole continuations, in the mean over requests.
  //
  // Soft: let P' be P with infer's own step at every prefix from which on the threshold would be
  // broken. On requests within the threshold W' = W, so TV(P, Q) = E_Q(1 - W)_+ is at most
  // E_Q(1 - W')_+ = TV(P', Q) plus the share of the others. P' keeps the threshold on every path,
  // so that a mean over a path serves KL of either direction: of P' or of Q the paths, each adds up
  // to at most T times the threshold.
  double SequenceTv(double mean_tv) const {
    const int64_t tokens = *given_.tokens_max;
    double tv = SequenceTvOfMeanTokenTv(mean_tv, tokens);
    const auto also = [&](double other) { tv = std::fmin(tv, other); };
    if (Everywhere()) {
      also(SequenceTvOfDrift(drift_.form, clause_.threshold, given_.temperature, tokens));
    } else if (clause_.metric.aggregate == Aggregate::kMean && drift_.form == DriftForm::kKl &&
               (drift_.reverse || !clause_.hard())) {
      also(SequenceTvOfMeanDrift(DriftForm::kKl, clause_.threshold, given_.temperature, tokens));
    }
    return clause_.hard() ? tv : RoundUpToOne(tv + clause_.exceedance);
  }

  void OfTokens(double tv) {
    Implication row;
    row.every = Everywhere();
    row.exceedance = clause_.exceedance;
    row.chosen_by = drift_.sampled ? ChosenBy::kInfer : ChosenBy::kAnyone;
    const std::string mean = row.every ? "" : "mean ";
    Add(row, "tv", row.every ? "total variation of every token" : "mean total variation of a token",
        tv, 1);
    if (given_.reward_max) {
      const double r = *given_.reward_max;
      Add(row, "reward_drift", mean + "reward drift that one token can cause" + Rewards(),
          RewardDriftOfTv(tv, r, RewardRange::kMinusRToR), 2 * r);
    }
    if (given_.advantage_max && given_.score_norm_max) {
      const double a = *given_.advantage_max;
      const double g = *given_.score_norm_max;
      Add(row, "gradient_bias",
          mean + "bias of the uncorrected policy gradient that one token can cause" + Advantages(),
          GradientBiasOfTv(tv, a, g), 2 * a * g);
    }
  }

  void OfContinuations(double tv, int64_t tokens) {
    Implication row;
    row.every = clause_.hard() && Everywhere();
    const bool chain = clause_.hard() && drift_.reverse && !Everywhere();
    row.chosen_by = drift_.sampled || chain ? ChosenBy::kInfer : ChosenBy::kInferOrTrain;
    const std::string mean = row.every ? "" : "mean ";
    const std::string length = " of continuations of up to " + std::to_string(tokens) + " tokens";
    if (given_.reward_max) {
      const double r = *given_.reward_max;
      Add(row, "sequence_reward_drift", mean + "reward drift" + length + Rewards(),
          RewardDriftOfTv(tv, r, RewardRange::kMinusRToR), 2 * r);
    }
    if (given_.advantage_max && given_.score_norm_max) {
      const double a = *given_.advantage_max;
      const double g = *given_.score_norm_max;
      const double most = 2 * a * g * static_cast<double>(tokens);
      double bias = OutcomeBiasOfTv(tv, tokens, a, g);
      if (given_.advantages == AdvantageKind::kToken && Everywhere()) {
        const auto span = SpanOfDrift(drift_.form, clause_.threshold, given_.temperature);
        if (span) {
          bias = std::fmin(
              bias, RoundUp(TrajectoryBiasOfSpan(*span, tokens, a, g) + most * clause_.exceedance));
        }
      }
      Add(row, "trajectory_bias",
          mean + "bias of the uncorrected policy gradient" + length + ", advantages of " +
              (given_.advantages == AdvantageKind::kToken ? "tokens" : "whole continuations") +
              Advantages(),
          bias, most);
    }
  }

  std::string Rewards() const { return ", |reward| ≤ " + ShortestNumber(*given_.reward_max); }
  std::string Advantages() const {
    return ", |advantage| ≤ " + ShortestNumber(*given_.advantage_max) + ", score norm ≤ " +
           ShortestNumber(*given_.score_norm_max);
  }

  void Add(Implication row, std::string_view quantity, std::string text, double value,
           double most) {
    row.quantity = quantity;
    row.value = value;
    row.vacuous = value >= kVacuousShare * most;
    row.text = std::move(text);
    if (row.chosen_by == ChosenBy::kInferOrTrain) {
      row.text += ", where infer or train chose the tokens";
    } else if (row.chosen_by == ChosenBy::kInfer) {
      row.text += ", where infer chose the tokens";
      if (drift_.support) row.text += " and can choose whatever train can";
    }
    if (row.exceedance > 0) {
      row.text += ", in all but " + PercentText(row.exceedance) + " of the ";
      row.text += clause_.window.kind == Window::Kind::kRequest
                      ? "requests"
                      : "windows of " + WindowText(clause_.window);
    }
    if (clause_.slices.size() > 1) {
      row.text += ", on each of its slices";
    } else if (clause_.slices.front() != "all") {
      row.text += ", on slice " + clause_.slices.front();
    }
    rows_.push_back(std::move(row));
  }

  const Clause& clause_;
  const DriftQuantity& drift_;
  const Assumptions& given_;
  const Selection selection_;
  std::vector<Implication> rows_;
};

}  // namespace

Selection SelectionOf(const Contract& contract, const Clause& clause) {
  Selection selection = Selection::kAnswers;
  for (const std::string& name : clause.slices) {
    const Slice* slice = contract.FindSlice(name);
    if (slice != nullptr) selection = std::max(selection, SelectionOf(*slice));
  }
  return selection;
}

std::vector<Implication> ImplicationsOf(const Contract& contract, const Clause& clause) {
  return ImplicationsOf(clause, contract.assumptions, SelectionOf(contract, clause));
}

std::vector<Implication> ImplicationsOf(const Clause& clause, const Assumptions& assumptions,
                                        Selection selection) {
  const DriftQuantity* drift = DriftOf(clause);
  if (drift == nullptr) return {};
  return Implied(clause, *drift, assumptions, selection).Rows();
}

std::vector<std::string_view> AssumptionsMissing(const Assumptions& assumptions) {
  std::vector<std::string_view> missing;
  if (!assumptions.reward_max) missing.push_back("rewardMax");
  if (!assumptions.advantage_max) missing.push_back("advantageMax");
  if (!assumptions.score_norm_max) missing.push_back("scoreNormMax");
  return missing;
}

}  // namespace kcc
