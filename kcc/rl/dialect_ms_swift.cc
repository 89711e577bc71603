// ms-swift's rollout correction: verl's metrics with its own clamps, a geometric chi2_seq, and no
// lower bound anywhere.
#include <algorithm>
#include <cmath>

#include "kcc/numeric/double_math.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

struct SwiftOptions {
  std::optional<std::string> mode;
  double threshold = 2;
  std::optional<double> delta;
  bool log_metrics = false;
};

Result<SwiftOptions> Read(const OptionValue& json) {
  OptionReader reader(json);
  SwiftOptions out;
  out.mode =
      reader.MaybeWord("rollout_importance_sampling_mode",
                       {"token_truncate", "token_mask", "sequence_truncate", "sequence_mask"});
  out.threshold = reader.Number("rollout_importance_sampling_threshold", 2);
  out.delta = reader.MaybeNumber("off_policy_sequence_mask_delta");
  out.log_metrics = reader.Bool("log_rollout_offpolicy_metrics", false);
  KCC_TRY_VOID(reader.Finish());
  if (!(out.threshold > 0)) {
    return InvalidError("\"rollout_importance_sampling_threshold\" must be positive");
  }
  return out;
}

double Safe(double d) { return Clamp(d, -20, 20); }

void AddOffPolicy(const DialectInput& in, ResultBuilder* out) {
  const Doubles train = in.RowMeans(in.train);
  const Doubles rollout = in.RowMeans(in.rollout);
  const auto minus = [](double v) { return -v; };
  const auto ppl = [](double v) { return Exp32(-v); };
  out->Add("training_ppl", MeanOf(MapValues(train, ppl)));
  out->Add("training_log_ppl", MeanOf(MapValues(train, minus)));
  out->Add("kl", in.Mean(MapValues(in.d, minus)));
  out->Add("k3_kl",
           in.Mean(MapValues(in.d, [](double d) { return Clamp(ExpResidual(Safe(d)), -10, 10); })));
  out->Add("rollout_ppl", MeanOf(MapValues(rollout, ppl)));
  out->Add("rollout_log_ppl", MeanOf(MapValues(rollout, minus)));
  const Doubles diff = MapTokens(in.rows, [&](size_t r) { return rollout[r] - train[r]; });
  out->Add("log_ppl_diff", MeanOf(diff));
  out->Add("log_ppl_abs_diff", MeanOf(MapValues(diff, [](double v) { return std::fabs(v); })));
  out->Add("log_ppl_diff_max", MaxOf(diff));
  out->Add("log_ppl_diff_min", MinOf(diff));
  out->Add("ppl_ratio", MeanOf(MapValues(diff, Exp32)));
  out->Add("chi2_token", in.Mean(MapValues(in.d, [](double d) { return Exp(2 * Safe(d)); })) - 1);
  out->Add("chi2_seq",
           MeanOf(MapValues(in.RowMeans(in.d), [](double g) { return Exp(2 * Safe(g)); })) - 1);
}

Doubles AddWeights(const DialectInput& in, const SwiftOptions& options, ResultBuilder* out) {
  const double high = options.threshold;
  const Doubles ratio = MapTokens(in.size(), [&](size_t i) { return Exp(Safe(in.d[i])); });
  const Doubles rows = MapValues(
      in.RowMeans(MapValues(ratio, [](double w) { return Log(std::max(w, 1e-10)); })), Exp);
  const bool by_token = options.mode->starts_with("token");
  Doubles weights = ratio;
  if (*options.mode == "token_truncate") {
    for (double& w : weights) w = std::min(w, high);
  } else if (*options.mode == "token_mask") {
    for (double& w : weights) w = w <= high ? w : 0;
  } else if (*options.mode == "sequence_truncate") {
    weights = in.Spread(MapValues(rows, [&](double w) { return std::min(w, high); }));
  } else {
    const Doubles spread = in.Spread(rows);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] *= spread[i] <= high;
  }
  out->Add("is_weight_mean", in.Mean(weights));
  const Doubles bounded = MapValues(weights, [&](double w) { return Clamp(w, 1 / high, high); });
  const double mean = in.Mean(bounded);
  const double square = in.Mean(MapValues(bounded, [&](double w) {
    const double x = w / (mean > 0 ? mean : 1e-8);
    return x * x;
  }));
  out->Add("ess", 1 / std::max(square, 1e-10));
  if (by_token) {
    const bool masks = *options.mode == "token_mask";
    out->Add("clipped_frac", in.Mean(MapTokens(in.size(), [&](size_t i) {
      return (masks ? weights[i] == 0 : ratio[i] > high) ? 1.0 : 0.0;
    })));
  } else {
    out->Add("clipped_frac",
             MeanOf(MapValues(rows, [&](double w) { return w > high ? 1.0 : 0.0; })));
  }
  return weights;
}

Result<DialectResult> Run(const DialectInput& in, std::string_view, const OptionValue& json) {
  KCC_TRY(const SwiftOptions options, Read(json));
  ResultBuilder out("rollout_correction/");
  if (options.mode.has_value() || options.log_metrics) AddOffPolicy(in, &out);
  if (options.mode.has_value()) {
    Doubles weights = AddWeights(in, options, &out);
    out.Array("weights", in, std::move(weights));
  }
  if (options.delta.has_value()) {
    if (in.row_advantage.empty() && in.rows > 0) {
      return InvalidError("off_policy_sequence_mask_delta needs one advantage a row");
    }
    const Doubles mean = in.RowMeans(in.d);
    const Doubles keep = MapTokens(in.rows, [&](size_t r) {
      return -mean[r] > *options.delta && in.row_advantage[r] < 0 ? 0.0 : 1.0;
    });
    const Doubles spread = in.Spread(keep);
    out.Column("off_policy_sequence_mask", keep);
    out.Array("mask", in, MapTokens(in.size(), [&](size_t i) { return in.mask[i] * spread[i]; }));
  }
  return out.Take();
}

Result<DialectTranslation> Translate(std::string_view, const OptionValue& json) {
  KCC_TRY(const SwiftOptions options, Read(json));
  DialectTranslation out;
  out.warnings.emplace_back(
      "chi2_seq is of the geometric mean here, of the product in verl and slime");
  if (options.mode.has_value()) {
    RlWeightRule& weight = out.correction.weight;
    weight.high = options.threshold;
    if (*options.mode == "token_truncate") {
      weight.mode = RlWeightMode::kTruncate;
    } else if (*options.mode == "token_mask") {
      weight.mode = RlWeightMode::kMask;
    } else if (*options.mode == "sequence_truncate") {
      weight.mode = RlWeightMode::kTruncate;
      weight.level = RlLevel::kGeometric;
      out.warnings.emplace_back(kWarnSequenceIsGeometric);
    } else {
      weight.mode = RlWeightMode::kFull;
      out.correction.reject.push_back(
          {RlStatistic::kRatio, RlAggregate::kSequenceMean, 0, options.threshold});
      out.warnings.emplace_back(kWarnSequenceIsGeometric);
      out.notes.emplace_back("upstream sets the weights of a rejected row to 0 and keeps its mask");
    }
    out.warnings.emplace_back("ess clamps weights to [1/C, C] first: masked zeros count as 1/C");
  }
  if (options.delta.has_value()) {
    out.complete = false;
    out.notes.emplace_back(
        "off_policy_sequence_mask drops rows by the advantage's sign, which no canonical rule "
        "does");
  }
  return out;
}

constexpr DialectFunction kFunctions[] = {
    {"rollout_correction",
     "rollout_importance_sampling_mode rollout_importance_sampling_threshold "
     "off_policy_sequence_mask_delta log_rollout_offpolicy_metrics"},
};

}  // namespace

constinit const Dialect kMsSwiftDialect = {
    .id = "ms_swift",
    .aliases = "swift",
    .title = "ms-swift",
    .repository = "modelscope/ms-swift",
    .commit = "3602360a5",
    .functions = kFunctions,
    .oddities =
        "k3 is clamped twice (d to 20, the result to 10). With nothing valid `ess` is 1e10.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
