// open-instruct's rho correction and vLLM-against-local debug metrics. Log-ratios are clamped
// to 10.
#include <algorithm>
#include <cmath>

#include "kcc/numeric/double_math.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

struct RhoOptions {
  bool enabled = true, by_sequence = false, by_tv = false;
  double clamp_low = 0, clamp_high = 2, mask_low = 0, mask_high = 0;  // 0: off
};

Result<RhoOptions> Read(const OptionValue& json) {
  OptionReader reader(json);
  RhoOptions out;
  out.enabled = reader.Bool("use_rho_correction", true);
  out.clamp_low = reader.Number("rho_clamp_lower_bound", 0);
  out.clamp_high = reader.Number("rho_clamp_upper_bound", 2);
  out.mask_low = reader.Number("rho_mask_lower_bound", 0);
  out.mask_high = reader.Number("rho_mask_upper_bound", 0);
  out.by_sequence = reader.Bool("rho_mask_sequence_level", false);
  out.by_tv = reader.Bool("rho_mask_tv_divergence", false);
  KCC_TRY_VOID(reader.Finish());
  return out;
}

void AddDebug(const DialectInput& in, ResultBuilder* out) {
  const Doubles gaps = in.Valid(MapValues(in.d, [](double d) { return std::fabs(d); }));
  out->Add("debug/vllm_vs_local_logprob_diff_mean", MeanOf(gaps));
  out->Add("debug/vllm_vs_local_logprob_diff_max", gaps.empty() ? 0 : MaxOf(gaps));
  out->Add("debug/vllm_vs_local_logprob_diff_std", gaps.size() > 1 ? SampleSd(gaps) : 0);
  out->Add("debug/vllm_local_reverse_kl", in.Mean(MapTokens(in.size(), [&](size_t i) {
    return in.mask[i] ? Exp(in.rollout[i]) * -in.d[i] : 0.0;
  })));
}

double Bounded(const RhoOptions& o, double rho) {
  if (o.clamp_low > 0) rho = std::max(rho, o.clamp_low);
  if (o.clamp_high > 0) rho = std::min(rho, o.clamp_high);
  return rho;
}

Result<DialectResult> Run(const DialectInput& in, std::string_view, const OptionValue& json) {
  KCC_TRY(const RhoOptions o, Read(json));
  if (in.advantage.empty() && in.size() > 0) {
    return InvalidError("compute_rho_correction needs advantages");
  }
  ResultBuilder out;
  AddDebug(in, &out);
  if (!o.enabled) {
    out.Array("weights", in, Doubles(in.size(), 1.0));
    return out.Take();
  }
  const Doubles logs =
      MapTokens(in.size(), [&](size_t i) { return in.mask[i] ? Clamp(in.d[i], -10, 10) : 0.0; });
  const Doubles rho =
      o.by_sequence ? in.Spread(MapValues(in.RowMeans(logs), Exp)) : MapValues(logs, Exp);
  const Doubles judged =
      o.by_tv
          ? in.Spread(in.RowMeans(MapValues(logs, [](double d) { return std::fabs(Expm1(d)); })))
          : rho;
  Doubles low(in.size()), high(in.size()), both(in.size()), weights(in.size()), clipped(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const double push = logs[i] > 0 ? in.advantage[i] : logs[i] < 0 ? -in.advantage[i] : 0;
    const bool eligible = in.mask[i] != 0 && (!o.by_tv || push > 0);
    low[i] = eligible && o.mask_low > 0 && judged[i] < o.mask_low;
    high[i] = eligible && o.mask_high > 0 && judged[i] > o.mask_high;
    both[i] = std::max(low[i], high[i]);
    const double bounded = Bounded(o, rho[i]);
    clipped[i] = bounded != rho[i];
    weights[i] = in.mask[i] != 0 && both[i] == 0 ? bounded : 0;
  }
  out.Add("val/rho_drop_frac", in.Mean(both));
  out.Add("val/rho_drop_low_frac", in.Mean(low));
  out.Add("val/rho_drop_high_frac", in.Mean(high));
  out.Add("val/rho_weight", in.Mean(weights));
  out.Add("val/rho_clipfrac", in.Mean(clipped));
  out.Array("weights", in, std::move(weights));
  return out.Take();
}

Result<DialectTranslation> Translate(std::string_view, const OptionValue& json) {
  KCC_TRY(const RhoOptions o, Read(json));
  DialectTranslation out;
  out.warnings.emplace_back(
      "debug/vllm_local_reverse_kl weights by the rollout probability although tokens are already "
      "sampled from it: it is not a KL");
  if (!o.enabled) return out;
  RlWeightRule& weight = out.correction.weight;
  weight.level = o.by_sequence ? RlLevel::kGeometric : RlLevel::kToken;
  if (o.by_sequence) out.warnings.emplace_back(kWarnSequenceIsGeometric);
  weight.low = o.clamp_low;
  weight.high = o.clamp_high > 0 ? o.clamp_high : 1e300;
  weight.mode = o.clamp_low > 0    ? RlWeightMode::kClip
                : o.clamp_high > 0 ? RlWeightMode::kTruncate
                                   : RlWeightMode::kFull;
  if (o.mask_low <= 0 && o.mask_high <= 0) return out;
  if (o.by_tv) {
    out.complete = false;
    out.notes.emplace_back(
        "the TV mask bounds the row's mean |w - 1| by the ratio bounds and drops only tokens whose "
        "advantage pushes outwards; no canonical rule does");
    return out;
  }
  out.correction.reject.push_back(
      {RlStatistic::kRatio, o.by_sequence ? RlAggregate::kSequenceMean : RlAggregate::kTokenwise,
       o.mask_low, o.mask_high > 0 ? o.mask_high : 1e300});
  return out;
}

constexpr DialectFunction kFunctions[] = {
    {"compute_rho_correction",
     "use_rho_correction rho_clamp_lower_bound rho_clamp_upper_bound rho_mask_lower_bound "
     "rho_mask_upper_bound rho_mask_sequence_level rho_mask_tv_divergence"},
};

}  // namespace

constinit const Dialect kOpenInstructDialect = {
    .id = "open_instruct",
    .title = "open-instruct",
    .repository = "allenai/open-instruct",
    .commit = "e6c3044aa",
    .functions = kFunctions,
    .oddities =
        "`debug/vllm_local_reverse_kl` weights by the rollout probability although tokens are "
        "sampled from it.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
