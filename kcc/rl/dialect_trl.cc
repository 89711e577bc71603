// TRL's GRPO trainer: importance sampling against vLLM, the off-policy sequence mask and VESPO's
// gamma weights. Nothing is clamped but where VESPO says so.
#include <algorithm>
#include <cmath>

#include "kcc/numeric/double_math.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

struct TrlSampling {
  std::string mode = "sequence_mask";
  std::optional<double> low, high = 3.0;

  bool by_sequence() const { return mode.starts_with("sequence"); }
  bool masks() const { return mode.ends_with("mask"); }
};

TrlSampling ReadSampling(OptionReader& reader) {
  TrlSampling out;
  out.mode = reader.Word("vllm_importance_sampling_mode", "sequence_mask",
                         {"token_truncate", "token_mask", "sequence_truncate", "sequence_mask"});
  out.low = reader.MaybeNumber("vllm_importance_sampling_clip_min");
  out.high = reader.MaybeNumber("vllm_importance_sampling_clip_max", 3.0);
  return out;
}

DialectInput WithToolMask(const DialectInput& in) {
  DialectInput out = in;
  for (size_t i = 0; i < in.tool_mask.size(); ++i) out.mask[i] &= in.tool_mask[i] != 0;
  return out;
}

double Bounded(const TrlSampling& options, double ratio) {
  const bool over = options.high.has_value() && ratio > *options.high;
  const bool under = options.low.has_value() && ratio < *options.low;
  if (options.masks()) return over || under ? 0 : ratio;
  return over ? *options.high : under ? *options.low : ratio;
}

// The weights: one per token (1 outside the mask), or one per row.
Doubles Weights(const DialectInput& in, const TrlSampling& options) {
  if (options.by_sequence()) {
    return MapValues(in.RowSums(in.d), [&](double s) { return Bounded(options, Exp32(s)); });
  }
  return MapTokens(in.size(),
                   [&](size_t i) { return Bounded(options, in.mask[i] ? Exp32(in.d[i]) : 1.0); });
}

void AddSampling(const DialectInput& in, const TrlSampling& options, const Doubles& weights,
                 ResultBuilder* out) {
  const Doubles gaps = in.Valid(MapValues(in.d, [](double d) { return std::fabs(d); }));
  out->Add("sampling/sampling_logp_difference/mean", MeanOf(gaps));
  out->Add("sampling/sampling_logp_difference/max", gaps.empty() ? 0 : MaxOf(gaps));
  const Doubles flat = options.by_sequence() ? weights : in.Valid(weights);
  out->Add("sampling/importance_sampling_ratio/min", flat.empty() ? 0 : MinOf(flat));
  out->Add("sampling/importance_sampling_ratio/mean", MeanOf(flat));
  out->Add("sampling/importance_sampling_ratio/max", flat.empty() ? 0 : MaxOf(flat));
}

void AddWeightArray(const DialectInput& in, const TrlSampling& options, const Doubles& weights,
                    ResultBuilder* out) {
  if (options.by_sequence()) {
    out->Column("weights", weights);
  } else {
    out->Array("weights", in, weights);
  }
}

struct Vespo {
  double k_positive, lambda_positive, k_negative, lambda_negative;
};

Vespo ReadVespo(OptionReader& reader) {
  return {reader.Number("vespo_k_pos", 2), reader.Number("vespo_lambda_pos", 3),
          reader.Number("vespo_k_neg", 3), reader.Number("vespo_lambda_neg", 2)};
}

// phi(w) = e^l w^k e^(-l w), w the sequence ratio of current to old, times the sampling weights.
Doubles GammaWeights(const DialectInput& in, const Vespo& options, const Doubles* sampling) {
  const double floor = Log(1e-8);
  return MapTokens(in.rows, [&](size_t r) {
    double sum = 0;
    for (size_t i = in.begin(r); i < in.end(r); ++i) {
      if (in.mask[i]) sum += Clamp(in.current[i] - in.train[i], -20, 20);
      if (sampling != nullptr) sum += Clamp(Log((*sampling)[i]), floor, 20);
    }
    const double log_w = Clamp(sum, floor, 20);
    const bool positive = in.row_advantage[r] >= 0;
    const double k = positive ? options.k_positive : options.k_negative;
    const double lambda = positive ? options.lambda_positive : options.lambda_negative;
    return Exp(lambda + k * log_w - lambda * Exp(log_w));
  });
}

Result<DialectResult> RunGamma(const DialectInput& in, const OptionValue& json) {
  OptionReader reader(json);
  const Vespo vespo = ReadVespo(reader);
  const bool corrected = reader.Has("vllm_importance_sampling_mode");
  const TrlSampling sampling = ReadSampling(reader);
  KCC_TRY_VOID(reader.Finish());
  if (in.current.empty() && in.size() > 0) {
    return InvalidError("get_gamma_weights needs current_logprobs");
  }
  if (in.row_advantage.empty() && in.rows > 0) {
    return InvalidError("get_gamma_weights needs one advantage a row");
  }
  ResultBuilder out;
  Doubles weights;
  if (corrected) {
    weights = Weights(in, sampling);
    AddSampling(in, sampling, weights, &out);
    AddWeightArray(in, sampling, weights, &out);
  }
  const Doubles spread = corrected && sampling.by_sequence() ? in.Spread(weights) : weights;
  out.Column("gamma_weights", GammaWeights(in, vespo, corrected ? &spread : nullptr));
  return out.Take();
}

Result<DialectResult> RunOffPolicyMask(const DialectInput& in, const OptionValue& json) {
  OptionReader reader(json);
  const double threshold = reader.Number("off_policy_mask_threshold", 0.5);
  KCC_TRY_VOID(reader.Finish());
  if (in.row_advantage.empty() && in.rows > 0) {
    return InvalidError("get_off_policy_mask needs one advantage a row");
  }
  const Doubles mean = in.RowMeans(in.d);
  ResultBuilder out;
  out.Column("off_policy_mask", MapTokens(in.rows, [&](size_t r) {
               return in.row_advantage[r] >= 0 || -mean[r] <= threshold ? 1.0 : 0.0;
             }));
  return out.Take();
}

Result<DialectResult> Run(const DialectInput& given, std::string_view function,
                          const OptionValue& json) {
  const DialectInput in = WithToolMask(given);
  if (function == "get_gamma_weights") return RunGamma(in, json);
  if (function == "get_off_policy_mask") return RunOffPolicyMask(in, json);
  OptionReader reader(json);
  const TrlSampling options = ReadSampling(reader);
  KCC_TRY_VOID(reader.Finish());
  const Doubles weights = Weights(in, options);
  ResultBuilder out;
  AddSampling(in, options, weights, &out);
  AddWeightArray(in, options, weights, &out);
  return out.Take();
}

Result<DialectTranslation> Translate(std::string_view function, const OptionValue& json) {
  OptionReader reader(json);
  DialectTranslation out;
  if (function == "get_off_policy_mask") {
    reader.Number("off_policy_mask_threshold", 0.5);
    out.complete = false;
    out.notes.emplace_back("drops rows by the advantage's sign, which no canonical rule does");
    KCC_TRY_VOID(reader.Finish());
    return out;
  }
  if (function == "get_gamma_weights") {
    ReadVespo(reader);
    out.complete = false;
    out.notes.emplace_back("VESPO's gamma weight has no canonical counterpart");
  }
  const TrlSampling options = ReadSampling(reader);
  KCC_TRY_VOID(reader.Finish());
  RlWeightRule& weight = out.correction.weight;
  weight.level = options.by_sequence() ? RlLevel::kSequence : RlLevel::kToken;
  weight.low = options.low.value_or(0);
  weight.high = options.high.value_or(1e300);
  weight.mode = options.masks()            ? RlWeightMode::kMask
                : options.low.has_value()  ? RlWeightMode::kClip
                : options.high.has_value() ? RlWeightMode::kTruncate
                                           : RlWeightMode::kFull;
  if (options.by_sequence()) out.warnings.emplace_back(kWarnSequenceIsProduct);
  if (options.masks()) {
    out.warnings.emplace_back(
        "\"mask\" sets the weight to 0 and leaves the loss mask: the loss still divides by all "
        "tokens");
  }
  out.warnings.emplace_back(
      "importance_sampling_ratio/* are of the weights after truncation or masking, not of the "
      "ratio");
  return out;
}

constexpr DialectFunction kFunctions[] = {
    {"importance_sampling",
     "vllm_importance_sampling_clip_min vllm_importance_sampling_clip_max "
     "vllm_importance_sampling_mode"},
    {"get_off_policy_mask", "off_policy_mask_threshold"},
    {"get_gamma_weights",
     "vespo_k_pos vespo_lambda_pos vespo_k_neg vespo_lambda_neg vllm_importance_sampling_clip_min "
     "vllm_importance_sampling_clip_max vllm_importance_sampling_mode"},
};

}  // namespace

constinit const Dialect kTrlDialect = {
    .id = "trl",
    .title = "TRL",
    .repository = "huggingface/trl",
    .commit = "f2cd57710",
    .functions = kFunctions,
    .oddities =
        "Metrics are of the weights after truncation or masking. Token weights are 1 outside "
        "the mask.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
