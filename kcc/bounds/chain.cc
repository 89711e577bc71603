#include "kcc/bounds/chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kcc/base/check.h"
#include "kcc/bounds/divergence.h"
#include "kcc/bounds/inverse.h"
#include "kcc/bounds/rounding.h"
#include "kcc/bounds/sequence.h"

namespace kcc {
namespace {

constexpr std::string_view kTokenTrajectory = "2 A G sum_t tv(first t tokens)";
constexpr std::string_view kOutcomeTrajectory = "2 A G T sequence_tv";

class ForwardWriter {
 public:
  ForwardWriter(DriftForm form, double value, const BoundAssumptions& assumptions)
      : form_(form),
        value_(value),
        given_(assumptions),
        span_(SpanOfDrift(form, value, assumptions.temperature)),
        tv_(TvOfDrift(form, value, assumptions.temperature)) {}

  Chain Write() {
    if (span_) {
      WriteSpan(*span_);
    } else {
      WriteDivergence();
    }
    WriteReward();
    WriteBias();
    WriteSequence();
    return std::move(chain_);
  }

 private:
  void Row(std::string_view name, std::string_view what, double value, std::string_view formula,
           std::optional<double> textbook = {}, std::string_view textbook_formula = "") {
    chain_.rows.push_back({name, what, value, formula, textbook, textbook_formula});
  }

  double Linf() const { return 0.5 * *span_ * given_.temperature; }

  void WriteSpan(double s) {
    const double tau = given_.temperature;
    Row("logit_span", "span of the scaled logit difference", s,
        form_ == DriftForm::kLinf ? "2 linf/tau"
        : form_ == DriftForm::kL2 ? "sqrt(2) l2/tau"
                                  : "s");
    Row("tv", "total variation", tv_, "tanh(s/4)", TvOfLinfTextbook(Linf(), tau), "linf/tau = s/2");
    const double kl = KlOfSpan(s);
    Row("kl", "KL(train || infer)", kl, "s/(e^s - 1) - 1 + ln((e^s - 1)/s)", KlOfSpanHoeffding(s),
        "s^2/8");
    Row("reverse_kl", "KL(infer || train)", kl, "as kl", KlOfSpanHoeffding(s), "s^2/8");
    Row("hellinger", "1 - sum sqrt(pq)", HellingerOfSpan(s), "1 - sech(s/4)");
    Row("chi2", "E_infer (w - 1)^2", Chi2OfSpan(s), "sinh(s/2)^2");
    Row("reverse_chi2", "E_train (1/w - 1)^2", Chi2OfSpan(s), "sinh(s/2)^2");
    Row("abs_log_ratio", "|log w| of any token", LogRatioOfSpan(s), "s");
  }

  void WriteDivergence() {
    switch (form_) {
      case DriftForm::kKl:
        Row("kl", "KL, either direction", value_, "kl");
        Row("tv", "total variation", tv_, "min(sqrt(kl/2), sqrt(1 - e^-kl))",
            RoundUp(std::sqrt(value_ / 2)), "sqrt(kl/2)");
        return;
      case DriftForm::kAbsLogRatio:
        Row("abs_log_ratio", "mean |log w| of infer's tokens", value_, "x");
        Row("tv", "mean total variation", tv_, "x");
        return;
      default:
        Row("tv", "total variation", tv_, "tv");
    }
  }

  void WriteReward() {
    if (!given_.reward_max) {
      chain_.missing.push_back("rewardMax");
      return;
    }
    const double r = *given_.reward_max;
    const bool from_zero = given_.reward_range == RewardRange::kZeroToR;
    std::optional<double> textbook;
    if (span_) {
      textbook = (from_zero ? 1.0 : 2.0) * r * TvOfLinfTextbook(Linf(), given_.temperature);
    }
    Row("reward_drift", from_zero ? "reward drift, r in [0, R]" : "reward drift, r in [-R, R]",
        RewardDriftOfTv(tv_, r, given_.reward_range), from_zero ? "R tv" : "2 R tv", textbook,
        span_ ? (from_zero ? "R s/2" : "R s") : "");
  }

  void WriteBias() {
    if (!given_.has_bias()) {
      if (!given_.advantage_max) chain_.missing.push_back("advantageMax");
      if (!given_.score_norm_max) chain_.missing.push_back("scoreNormMax");
      return;
    }
    const double a = *given_.advantage_max;
    const double g = *given_.score_norm_max;
    std::optional<double> textbook;
    if (span_) textbook = 2 * a * g * TvOfLinfTextbook(Linf(), given_.temperature);
    Row("gradient_bias", "policy-gradient bias of one token, uncorrected",
        GradientBiasOfTv(tv_, a, g), "2 A G tv", textbook, span_ ? "A G s" : "");
    if (!span_) return;
    const auto corrected = [&](Correction correction, CorrectionRange range) {
      return GradientBiasOfSpan(*span_, correction, range, a, g);
    };
    const CorrectionRange range = given_.weights;
    Row("gradient_bias_truncated", "the same, weights min(w, c)",
        corrected(Correction::kTruncate, range), "A G (e^(s/2) - sqrt c)^2/(e^s - 1)");
    Row("gradient_bias_clipped", "the same, weights clip(w, a, c)",
        corrected(Correction::kClip, range), "A G sup E|w - clip(w, a, c)|");
    Row("gradient_bias_masked", "the same, w inside [a, c], else 0",
        corrected(Correction::kMask, range), "A G sup P_train(w outside [a, c])");
    Row("importance_second_moment", "E w^2 of full importance sampling, which has no bias",
        ImportanceVarianceFactor(*span_), "cosh(s/2)^2");
  }

  void WriteSequence() {
    if (!given_.tokens) {
      chain_.missing.push_back("tokensMax");
      return;
    }
    const int64_t t = *given_.tokens;
    const double tv = SequenceTvOfDrift(form_, value_, given_.temperature, t);
    const std::optional<double> coupling =
        span_ ? std::optional(SequenceTvOfMeanTokenTv(tv_, t)) : std::nullopt;
    Row("sequence_tv", "total variation of whole continuations", tv,
        span_                     ? "sqrt(1 - sech(s/4)^(2T))"
        : form_ == DriftForm::kTv ? "1 - (1 - tv)^T"
        : form_ == DriftForm::kKl ? "min(sqrt(T kl/2), sqrt(1 - e^(-T kl)))"
                                  : "T x",
        coupling, span_ ? "T tv" : "");
    if (span_ || form_ == DriftForm::kKl) {
      Row("seq_kl", "KL of whole continuations",
          SequenceKlOfTokenKl(span_ ? KlOfSpan(*span_) : value_, t), "T kl");
    }
    if (given_.reward_max) {
      Row("sequence_reward_drift", "reward drift of whole continuations",
          RewardDriftOfTv(tv, *given_.reward_max, given_.reward_range),
          given_.reward_range == RewardRange::kZeroToR ? "R sequence_tv" : "2 R sequence_tv");
    }
    if (!span_ || !given_.has_bias()) return;
    const double a = *given_.advantage_max;
    const double g = *given_.score_norm_max;
    if (given_.advantages == AdvantageKind::kToken) {
      Row("trajectory_bias", "gradient bias over a trajectory, uncorrected, advantages of tokens",
          TrajectoryBiasOfSpan(*span_, t, a, g), kTokenTrajectory);
      Row("trajectory_bias_token_weights", "the same with token weights w_t",
          TrajectoryBiasWithTokenWeights(*span_, t, a, g), "2 A G sum_(t<T) tv(first t tokens)");
    } else {
      Row("trajectory_bias", "gradient bias over a trajectory, uncorrected, advantages of outcomes",
          OutcomeBiasOfSpan(*span_, t, a, g), kOutcomeTrajectory);
      Row("trajectory_bias_token_weights", "the same with token weights w_t",
          OutcomeBiasWithTokenWeights(*span_, t, a, g), "2 A G T tv(T - 1 tokens)");
    }
  }

  DriftForm form_;
  double value_;
  const BoundAssumptions& given_;
  std::optional<double> span_;
  double tv_;
  Chain chain_;
};

// Thresholds on every form from forward(form, x), a bound that rises with x.
template <class Forward>
void AddThresholds(double budget, Forward forward, std::span<const ThresholdRow> templates,
                   std::vector<ThresholdRow>* rows) {
  for (size_t i = 0; i < templates.size(); ++i) {
    const DriftForm form = kDriftForms[i];
    ThresholdRow row = templates[i];
    const double limit = form == DriftForm::kTv ? 1.0 : std::numeric_limits<double>::infinity();
    row.at_most = LargestWithin(
        budget, [&](double x) { return forward(form, x); }, limit);
    rows->push_back(row);
  }
}

// By kDriftForms. At one token every mean suffices; over continuations logit drifts must hold at
// every token (that is what makes them grow with sqrt T), the others in the mean.
constexpr ThresholdRow kTokenThresholds[] = {
    {"logit_span", "mean_logit_span", 0, "4 atanh(eta)"},
    {"logit_linf", "mean_logit_linf", 0, "2 tau atanh(eta)"},
    {"logit_l2", "mean_logit_l2", 0, "2 sqrt(2) tau atanh(eta)"},
    {"tv", "mean_tv", 0, "eta"},
    {"kl", "mean_kl", 0, "max(2 eta^2, -ln(1 - eta^2))"},
    {"abs_log_ratio", "mean_abs_log_ratio", 0, "eta, over tokens that infer sampled"},
};
constexpr ThresholdRow kSequenceThresholds[] = {
    {"logit_span", "max_logit_span", 0, "4 atanh(sqrt(1 - (1 - eta^2)^(1/T)))"},
    {"logit_linf", "max_logit_linf", 0, "tau/2 times the span's"},
    {"logit_l2", "max_logit_l2", 0, "tau/sqrt(2) times the span's"},
    {"tv", "mean_tv", 0, "eta/T, over tokens that infer sampled"},
    {"reverse_kl", "mean_reverse_kl", 0,
     "max(2 eta^2, -ln(1 - eta^2))/T, over tokens that infer sampled"},
    {"abs_log_ratio", "mean_abs_log_ratio", 0, "eta/T, over tokens that infer sampled"},
};

}  // namespace

std::string_view CatalogName(DriftForm form) {
  constexpr std::string_view kNames[] = {"logit_span", "logit_linf", "logit_l2",
                                         "tv",         "kl",         "abs_log_ratio"};
  return kNames[static_cast<size_t>(form)];
}

std::string_view Name(Tolerated what) {
  return what == Tolerated::kRewardDrift ? "reward_drift" : "gradient_bias";
}

std::optional<double> SpanOfDrift(DriftForm form, double value, double temperature) {
  switch (form) {
    case DriftForm::kSpan:
      return value;
    case DriftForm::kLinf:
      return SpanOfLinf(value, temperature);
    case DriftForm::kL2:
      return SpanOfL2(value, temperature);
    case DriftForm::kTv:
    case DriftForm::kKl:
    case DriftForm::kAbsLogRatio:
      break;
  }
  return {};
}

double TvOfDrift(DriftForm form, double value, double temperature) {
  if (const auto span = SpanOfDrift(form, value, temperature)) return TvOfSpan(*span);
  switch (form) {
    case DriftForm::kKl:
      return TvOfKl(value);
    case DriftForm::kAbsLogRatio:
      return std::fmin(1.0, TvOfMeanAbsLogRatio(value));
    default:
      return std::fmin(1.0, value);
  }
}

double SequenceTvOfDrift(DriftForm form, double value, double temperature, int64_t tokens) {
  if (const auto span = SpanOfDrift(form, value, temperature))
    return SequenceTvOfSpan(*span, tokens);
  if (form == DriftForm::kTv) return SequenceTvOfTokenTv(std::fmin(1.0, value), tokens);
  return SequenceTvOfMeanDrift(form, value, temperature, tokens);
}

double SequenceTvOfMeanDrift(DriftForm form, double value, double temperature, int64_t tokens) {
  if (form == DriftForm::kKl) return TvOfKl(SequenceKlOfTokenKl(value, tokens));
  return std::fmin(1.0, SequenceTvOfMeanTokenTv(TvOfDrift(form, value, temperature), tokens));
}

Chain ForwardChain(DriftForm form, double value, const BoundAssumptions& assumptions) {
  KCC_CHECK(value >= 0 && assumptions.temperature > 0);
  return ForwardWriter(form, value, assumptions).Write();
}

namespace {

// Products of the assumptions and the square of the most tokens, 1e30, stay finite: infinity times
// a drift of 0 would be no number, and no threshold could be found.
constexpr double kAssumptionMax = 1e100;

Result<> CheckBudget(double budget, const BoundAssumptions& assumptions) {
  if (!(budget >= 0)) return InvalidError("what is tolerated must be a number of at least 0");
  for (const std::optional<double>& each :
       {assumptions.reward_max, assumptions.advantage_max, assumptions.score_norm_max}) {
    if (!each || (*each >= 0 && *each <= kAssumptionMax)) continue;
    return InvalidError(
        "the largest |reward|, |advantage| and score norm must be numbers from 0 to 1e100");
  }
  return {};
}

}  // namespace

Result<std::vector<ThresholdRow>> BackwardChain(Tolerated what, double budget,
                                                const BoundAssumptions& assumptions) {
  KCC_CHECK(assumptions.temperature > 0);
  KCC_TRY_VOID(CheckBudget(budget, assumptions));
  const double tau = assumptions.temperature;
  std::vector<ThresholdRow> rows;
  if (what == Tolerated::kRewardDrift) {
    if (!assumptions.reward_max) {
      return InvalidError(
          "a tolerated reward drift needs the largest |reward|, rewardMax (--reward-max)");
    }
    const auto drift = [&](double tv) {
      return RewardDriftOfTv(tv, *assumptions.reward_max, assumptions.reward_range);
    };
    if (assumptions.tokens) {
      const int64_t tokens = *assumptions.tokens;
      // Of tv and the others a mean is asked for, so the mean's form must fit.
      const auto sequence = [&](DriftForm form, double x) {
        const bool logits = form <= DriftForm::kL2;
        return drift(logits ? SequenceTvOfDrift(form, x, tau, tokens)
                            : SequenceTvOfMeanDrift(form, x, tau, tokens));
      };
      AddThresholds(budget, sequence, kSequenceThresholds, &rows);
    } else {
      const auto token = [&](DriftForm form, double x) { return drift(TvOfDrift(form, x, tau)); };
      AddThresholds(budget, token, kTokenThresholds, &rows);
    }
    return rows;
  }
  if (!assumptions.has_bias()) {
    return InvalidError(
        "a tolerated gradient bias needs the largest |advantage| and score norm, advantageMax and "
        "scoreNormMax (--advantage-max, --score-norm-max)");
  }
  const double a = *assumptions.advantage_max;
  const double g = *assumptions.score_norm_max;
  if (assumptions.tokens) {
    const bool of_tokens = assumptions.advantages == AdvantageKind::kToken;
    const auto trajectory = [&](DriftForm form, double x) {
      const double span = *SpanOfDrift(form, x, tau);
      return of_tokens ? TrajectoryBiasOfSpan(span, *assumptions.tokens, a, g)
                       : OutcomeBiasOfSpan(span, *assumptions.tokens, a, g);
    };
    AddThresholds(budget, trajectory, std::span(kSequenceThresholds).first(3), &rows);
    for (ThresholdRow& row : rows) {
      row.formula = of_tokens ? "2 A G sum_t tv(first t tokens) = budget, solved"
                              : "2 A G T sequence_tv = budget, solved";
    }
    return rows;
  }
  const auto token = [&](DriftForm form, double x) {
    return GradientBiasOfTv(TvOfDrift(form, x, tau), a, g);
  };
  AddThresholds(budget, token, kTokenThresholds, &rows);
  return rows;
}

}  // namespace kcc
