// SkyRL's compute_off_policy_correction and its two abs-diff blocks. Order: outlier veto, token
// mask, TIS fractions, sequence mask; each sees the mask that the one before left.
#include <algorithm>
#include <cmath>

#include "kcc/numeric/double_math.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

struct SkyRlOptions {
  std::optional<std::string> tis, sequence_mask;
  double token_high = 2, sequence_high = 5;
  double geo_high = 1.01, geo_low = 0.99, product_high = 2, product_low = 0.5;
  std::optional<double> outlier_low, outlier_high, token_low_mask, token_high_mask;

  bool vetoes() const { return outlier_low.has_value() || outlier_high.has_value(); }
  bool masks_tokens() const { return token_low_mask.has_value() && token_high_mask.has_value(); }
  bool any() const {
    return tis.has_value() || sequence_mask.has_value() || vetoes() || masks_tokens();
  }
};

Result<SkyRlOptions> Read(const OptionValue& json) {
  OptionReader reader(json);
  SkyRlOptions out;
  out.tis = reader.MaybeWord("tis_ratio_type", {"token", "sequence"});
  out.token_high = reader.Number("token_tis_ratio_clip_high", 2);
  out.sequence_high = reader.Number("sequence_tis_ratio_clip_high", 5);
  out.sequence_mask = reader.MaybeWord("sequence_mask_metric", {"geometric", "product"});
  out.geo_high = reader.Number("geo_mask_high", 1.01);
  out.geo_low = reader.Number("geo_mask_low", 0.99);
  out.product_high = reader.Number("product_mask_high", 2);
  out.product_low = reader.Number("product_mask_low", 0.5);
  out.outlier_low = reader.MaybeNumber("outlier_token_is_threshold_low");
  out.outlier_high = reader.MaybeNumber("outlier_token_is_threshold_high");
  out.token_low_mask = reader.MaybeNumber("token_mask_is_threshold_low");
  out.token_high_mask = reader.MaybeNumber("token_mask_is_threshold_high");
  KCC_TRY_VOID(reader.Finish());
  return out;
}

double SafeExp(double d) { return Exp(Clamp(d, -20, 20)); }

void AddAbsDiff(const DialectInput& in, ResultBuilder* out) {
  const Doubles gap = MapValues(in.d, [](double d) { return std::fabs(d); });
  const Doubles masked = MapTokens(in.size(), [&](size_t i) { return in.mask[i] ? gap[i] : 0.0; });
  const std::string minibatch = "minibatch_rollout_logprobs_abs_diff_";
  out->Add(minibatch + "mean", in.Mean(gap));
  out->Add(minibatch + "sq_mean", in.Mean(MapValues(gap, [](double g) { return g * g; })));
  out->Add(minibatch + "max", MaxOf(masked));
  out->Add(minibatch + "min", MinOf(masked));
  const Doubles valid = in.Valid(gap);
  if (valid.empty()) return;
  const std::string policy = "policy/rollout_train_logprobs_abs_diff_";
  out->Add(policy + "max", MaxOf(valid));
  out->Add(policy + "min", MinOf(valid));
  out->Add(policy + "mean", MeanOf(valid));
  out->Add(policy + "std", SampleSd(valid));
}

void Veto(const SkyRlOptions& options, const Doubles& ratio, DialectInput* in, ResultBuilder* out) {
  double masked = 0, over = 0, under = 0;
  for (size_t r = 0; r < in->rows; ++r) {
    bool high = false, low = false;
    for (size_t i = in->begin(r); i < in->end(r); ++i) {
      if (!in->mask[i]) continue;
      high |= options.outlier_high.has_value() && ratio[i] > *options.outlier_high;
      low |= options.outlier_low.has_value() && ratio[i] < *options.outlier_low;
    }
    over += high;
    under += low;
    masked += high || low;
    if (high || low) {
      for (size_t i = in->begin(r); i < in->end(r); ++i) in->mask[i] = 0;
    }
  }
  const auto rows = static_cast<double>(in->rows);
  out->Add("outlier_seq_masked_ratio", masked / rows);
  out->Add("outlier_seq_over_high_ratio", over / rows);
  out->Add("outlier_seq_under_low_ratio", under / rows);
}

void MaskTokens(const SkyRlOptions& options, const Doubles& ratio, DialectInput* in,
                ResultBuilder* out) {
  const double before = in->Count();
  for (size_t i = 0; i < in->size(); ++i) {
    in->mask[i] &= ratio[i] >= *options.token_low_mask && ratio[i] <= *options.token_high_mask;
  }
  out->Add("token_mask_ratio", (before - in->Count()) / std::max(1.0, before));
}

void MaskSequences(const SkyRlOptions& options, DialectInput* in, ResultBuilder* out) {
  const bool geometric = *options.sequence_mask == "geometric";
  const double high = geometric ? options.geo_high : options.product_high;
  const double low = geometric ? options.geo_low : options.product_low;
  const Doubles logs = geometric ? in->RowMeans(in->d) : in->RowSums(in->d);
  double over = 0, under = 0;
  for (size_t r = 0; r < in->rows; ++r) {
    const double w = SafeExp(logs[r]);
    over += w > high;
    under += w < low;
    if (w > high || w < low) {
      for (size_t i = in->begin(r); i < in->end(r); ++i) in->mask[i] = 0;
    }
  }
  const auto rows = static_cast<double>(in->rows);
  const std::string prefix = geometric ? "geo_sequence_mask_" : "product_sequence_mask_";
  out->Add(prefix + "masked_ratio", (over + under) / rows);
  out->Add(prefix + "over_high_ratio", over / rows);
  out->Add(prefix + "under_low_ratio", under / rows);
}

Result<DialectResult> Run(const DialectInput& given, std::string_view, const OptionValue& json) {
  KCC_TRY(const SkyRlOptions options, Read(json));
  DialectInput in = given;
  ResultBuilder out;
  AddAbsDiff(in, &out);
  if (options.any()) {
    const Doubles ratio = MapValues(in.d, SafeExp);
    const Doubles masked =
        MapTokens(in.size(), [&](size_t i) { return in.mask[i] ? ratio[i] : 0.0; });
    out.Add("is_ratio_mean", in.Mean(ratio));
    out.Add("is_ratio_std", SampleSd(masked));
    out.Add("is_ratio_max", MaxOf(masked));
    out.Add("is_ratio_min", MinOf(masked));
    if (options.vetoes()) Veto(options, ratio, &in, &out);
    if (options.masks_tokens()) MaskTokens(options, ratio, &in, &out);
    if (options.tis == "token") {
      const double high = options.token_high;
      out.Add("tis_token_clip_high_ratio",
              in.Mean(MapValues(ratio, [&](double w) { return w > high ? 1.0 : 0.0; })));
      out.Array("weights", in, MapValues(ratio, [&](double w) { return std::min(w, high); }));
    } else if (options.tis == "sequence") {
      const double high = options.sequence_high;
      const Doubles w = MapValues(in.RowSums(in.d), SafeExp);
      out.Add("tis_seq_clip_high_ratio",
              MeanOf(MapValues(w, [&](double x) { return x > high ? 1.0 : 0.0; })));
      out.Column("weights", MapValues(w, [&](double x) { return std::min(x, high); }));
    }
    if (options.sequence_mask.has_value()) MaskSequences(options, &in, &out);
  }
  out.Array("mask", in, Doubles(in.mask.begin(), in.mask.end()));
  return out.Take();
}

Result<DialectTranslation> Translate(std::string_view, const OptionValue& json) {
  KCC_TRY(const SkyRlOptions options, Read(json));
  DialectTranslation out;
  if (options.tis.has_value()) {
    RlWeightRule& weight = out.correction.weight;
    weight.mode = RlWeightMode::kTruncate;
    weight.level = *options.tis == "token" ? RlLevel::kToken : RlLevel::kSequence;
    weight.high = *options.tis == "token" ? options.token_high : options.sequence_high;
    if (*options.tis == "sequence") out.warnings.emplace_back(kWarnSequenceIsProduct);
  }
  if (options.vetoes()) {
    out.correction.veto = RlVeto{options.outlier_low.value_or(0), options.outlier_high.value_or(0)};
  }
  if (options.masks_tokens()) {
    out.correction.reject.push_back({RlStatistic::kRatio, RlAggregate::kTokenwise,
                                     *options.token_low_mask, *options.token_high_mask});
  } else if (options.token_low_mask.has_value() || options.token_high_mask.has_value()) {
    out.warnings.emplace_back("a token mask with one bound is ignored: both must be set");
  }
  if (options.sequence_mask.has_value()) {
    const bool geometric = *options.sequence_mask == "geometric";
    out.correction.reject.push_back(
        {RlStatistic::kRatio, geometric ? RlAggregate::kSequenceMean : RlAggregate::kSequenceSum,
         geometric ? options.geo_low : options.product_low,
         geometric ? options.geo_high : options.product_high});
    if (options.vetoes() || options.masks_tokens()) {
      out.complete = false;
      out.notes.emplace_back(
          "the sequence mask sees only the tokens that veto and token mask left; canonical rules "
          "all see the original mask");
    }
  }
  out.warnings.emplace_back(
      "is_ratio_std, _max and _min count padding as ratio 0: the minimum is 0 with any padding");
  return out;
}

constexpr DialectFunction kFunctions[] = {
    {"compute_off_policy_correction",
     "tis_ratio_type token_tis_ratio_clip_high sequence_tis_ratio_clip_high sequence_mask_metric "
     "geo_mask_high geo_mask_low product_mask_high product_mask_low outlier_token_is_threshold_low "
     "outlier_token_is_threshold_high token_mask_is_threshold_low token_mask_is_threshold_high"},
};

}  // namespace

constinit const Dialect kSkyRlDialect = {
    .id = "skyrl",
    .title = "SkyRL",
    .repository = "NovaSky-AI/SkyRL",
    .commit = "a9564572e",
    .functions = kFunctions,
    .oddities =
        "`is_ratio_std`, `_max`, `_min` count padding as 0. A token mask with one bound is "
        "ignored.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
