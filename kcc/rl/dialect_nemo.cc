// NeMo-RL: ClippedPGLossFn and the sequence log-prob error mask. An overflowed or undefined ratio
// is weight 0; means are over the valid tokens of valid samples.
#include <algorithm>
#include <cmath>

#include "kcc/numeric/double_math.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

// Two masks are at work, and each figure names the one it is over. token_mask_ is the batch's own;
// in_.mask is that times the sample mask, which turns whole rows off. Example, three rows of two
// tokens, sample mask 1 0 1:
//
//     token_mask_   11 10 11      lengths of rows, the sums of seq-mask-tis
//     in_.mask      11 00 11      every mean over tokens
//
// A mean over samples divides by the number of samples that are on, also where a row of them has no
// token left.
struct NemoOptions {
  bool corrects = false, by_sequence = false, token_loss = true;
  std::optional<std::string> type;
  std::optional<double> high, low;
  std::string kl = "k3";
};

Result<NemoOptions> Read(const OptionValue& json) {
  OptionReader reader(json);
  NemoOptions out;
  out.corrects = reader.Bool("use_importance_sampling_correction", false);
  out.type =
      reader.MaybeWord("truncated_importance_sampling_type", {"tis", "icepop", "seq-mask-tis"});
  out.high = reader.MaybeNumber("truncated_importance_sampling_ratio");
  out.low = reader.MaybeNumber("truncated_importance_sampling_ratio_min");
  out.by_sequence = reader.Bool("sequence_level_importance_ratios", false);
  out.token_loss = reader.Bool("token_level_loss", true);
  out.kl = reader.Word("reference_policy_kl_type", "k3", {"k1", "k2", "k3"});
  if (reader.Number("reference_policy_kl_penalty", 0) != 0) {
    reader.Fail("\"reference_policy_kl_penalty\" needs a reference policy, which a dump lacks");
  }
  KCC_TRY_VOID(reader.Finish());
  if (out.by_sequence && out.token_loss) {
    return InvalidError("sequence_level_importance_ratios needs token_level_loss false");
  }
  if (!out.type.has_value()) return out;
  if (!out.corrects) {
    return InvalidError("truncated importance sampling needs use_importance_sampling_correction");
  }
  if (!out.high.has_value() || !(*out.high > 0)) {
    return InvalidError("truncated_importance_sampling_ratio must be positive");
  }
  if (out.low.has_value() && *out.low > *out.high) {
    return InvalidError("truncated_importance_sampling_ratio_min is above the maximum");
  }
  if (*out.type != "tis" && !out.low.has_value()) {
    return InvalidError("\"" + *out.type + "\" needs truncated_importance_sampling_ratio_min");
  }
  if (*out.type == "seq-mask-tis" && out.by_sequence) {
    return InvalidError("seq-mask-tis does not go with sequence_level_importance_ratios");
  }
  return out;
}

double ZeroIfBroken(double x) { return std::isfinite(x) ? x : 0; }

// Estimates of KL(gen || train) from d, and with -d of the other direction.
double Kl(const std::string& type, double d) {
  if (type == "k1") return -d;
  if (type == "k2") return d * d / 2;
  return std::isinf(Exp32(d)) ? Exp32(d) : ExpResidual(d);
}

// Exp32 is exp in float32, as upstream computes it: it overflows from d = 88.7 on, and what then
// becomes of the ratio is part of the dialect.
// At one token: half of k3 of train against the mixture, half of rollout against it.
double JsTerm3(double train, double rollout) {
  const double mixture = Log(0.5 * Exp(train) + 0.5 * Exp(rollout));
  return 0.5 * ExpResidual(train - mixture) + 0.5 * ExpResidual(rollout - mixture);
}

class NemoLoss {
 public:
  NemoLoss(const DialectInput& in, const NemoOptions& options) : in_(in), o_(options) {
    samples_ = in.sample_mask.empty() ? Doubles(in.rows, 1.0) : in.sample_mask;
    const Doubles spread = in.Spread(samples_);
    for (size_t i = 0; i < in.size(); ++i) in_.mask[i] &= spread[i] != 0;
    token_rows_ = MapTokens(in.rows, [&](size_t r) { return in.Count(r); });
    for (const double sample : samples_) sample_count_ += sample;
    token_mask_ = in.mask;
  }

  DialectResult Run() {
    ComputeWeights();
    out_.Add("loss", Loss());
    out_.Add("token_mult_prob_error",
             in_.Mean(MapValues(in_.d, [](double d) { return Exp32(std::fabs(d)); })));
    out_.Add("gen_kl_error", in_.Mean(MapValues(in_.d, [&](double d) { return Kl(o_.kl, d); })));
    out_.Add("policy_kl_error",
             in_.Mean(MapValues(in_.d, [&](double d) { return Kl(o_.kl, -d); })));
    out_.Add("js_divergence_error", in_.Mean(MapTokens(in_.size(), [&](size_t i) {
      return in_.mask[i] ? JsTerm3(in_.train[i], in_.rollout[i]) : 0.0;
    })));
    out_.Add("sampling_importance_ratio",
             o_.by_sequence ? SumOverRows(row_weights_) : in_.Mean(weights_));
    out_.Add("num_valid_samples", sample_count_);
    out_.Add(
        "approx_entropy",
        -in_.Mean(MapTokens(in_.size(), [&](size_t i) { return Exp32(in_.d[i]) * in_.train[i]; })));
    if (oob_.has_value()) out_.Add("is_oob_ratio", *oob_);
    if (!o_.corrects) {
      out_.Array("weights", in_, Doubles(in_.size(), 1.0));
    } else if (o_.by_sequence) {
      out_.Column("weights", row_weights_);
    } else {
      out_.Array("weights", in_, weights_);
    }
    return out_.Take();
  }

 private:
  double OverSamples(const Doubles& rows) const {
    double sum = 0;
    for (size_t r = 0; r < in_.rows; ++r) sum += rows[r] * samples_[r];
    return sum / std::max(1.0, sample_count_);
  }

  // A column of weights meets a row of samples upstream, so that the mean over samples of each is
  // summed over rows: n times the mean.
  static double SumOverRows(const Doubles& rows) {
    double sum = 0;
    for (const double w : rows) sum += w;
    return sum;
  }

  void ComputeWeights() {
    if (o_.by_sequence) {
      row_weights_ = MapValues(in_.RowSums(in_.d), [](double s) { return ZeroIfBroken(Exp32(s)); });
      weights_ = in_.Spread(row_weights_);
    } else {
      weights_ = MapValues(in_.d, [](double d) { return ZeroIfBroken(Exp32(d)); });
    }
    if (!o_.type.has_value()) return;
    const double high = *o_.high;
    const double low = o_.low.value_or(0);
    if (*o_.type == "seq-mask-tis") return MaskSequences(low, high);
    const auto inside = [&](double w) { return w >= low && w <= high; };
    oob_ = in_.Mean(MapValues(weights_, [&](double w) { return inside(w) ? 0.0 : 1.0; }));
    const auto bound = [&](double w) {
      if (*o_.type == "icepop") return inside(w) ? w : 0.0;
      return Clamp(w, low, high);
    };
    weights_ = MapValues(weights_, bound);
    row_weights_ = MapValues(row_weights_, bound);
  }

  // The band is on the geometric mean of a row's ratios, and a row outside it loses all its
  // weights. A log-ratio that is not finite counts as 0 here, though the weight of its token is 0,
  // too.
  void MaskSequences(double low, double high) {
    Doubles kept(in_.rows);
    for (size_t r = 0; r < in_.rows; ++r) {
      double sum = 0;
      for (size_t i = in_.begin(r); i < in_.end(r); ++i) {
        if (token_mask_[i]) sum += ZeroIfBroken(in_.d[i]);
      }
      const double ratio = Exp(sum / std::max(1.0, token_rows_[r]));
      kept[r] = ratio >= low && ratio <= high ? 1 : 0;
    }
    oob_ = OverSamples(MapValues(kept, [](double k) { return 1 - k; }));
    const Doubles spread = in_.Spread(kept);
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] *= spread[i];
  }

  double Loss() const {
    const Doubles loss = MapTokens(in_.size(), [&](size_t i) {
      return -in_.advantage[i] * (o_.corrects ? weights_[i] : 1.0);
    });
    if (o_.token_loss) return in_.Mean(loss);
    Doubles rows(in_.rows);
    for (size_t r = 0; r < in_.rows; ++r) {
      for (size_t i = in_.begin(r); i < in_.end(r); ++i) rows[r] += token_mask_[i] ? loss[i] : 0;
      rows[r] /= std::max(1.0, token_rows_[r]);
    }
    return OverSamples(rows);
  }

  DialectInput in_;  // its mask is tokens times samples
  const NemoOptions& o_;
  std::vector<uint8_t> token_mask_;
  Doubles samples_, token_rows_, weights_, row_weights_;
  double sample_count_ = 0;
  std::optional<double> oob_;
  ResultBuilder out_;
};

Result<std::optional<double>> ReadErrorMask(const OptionValue& json) {
  OptionReader reader(json);
  const auto threshold = reader.MaybeNumber("seq_logprob_error_threshold");
  KCC_TRY_VOID(reader.Finish());
  return threshold;
}

void AddErrors(const std::string& suffix, const Doubles& errors, ResultBuilder* out) {
  const std::string name = "_seq_mult_prob_error" + suffix;
  out->Add("max" + name, errors.empty() ? 0 : MaxOf(errors));
  out->Add("mean" + name, MeanOf(errors));
  out->Add("min" + name, errors.empty() ? 0 : MinOf(errors));
}

// Rows whose mean of e^|log w| is above the threshold leave the sample mask. The result is the
// sample mask that ClippedPGLossFn is then given.
Result<DialectResult> RunErrorMask(const DialectInput& given, const OptionValue& json) {
  KCC_TRY(const auto threshold, ReadErrorMask(json));
  DialectInput in = given;
  Doubles samples = in.sample_mask.empty() ? Doubles(in.rows, 1.0) : in.sample_mask;
  const Doubles spread = in.Spread(samples);
  for (size_t i = 0; i < in.size(); ++i) in.mask[i] &= spread[i] != 0;
  const Doubles errors = in.RowMeans(MapValues(in.d, [](double d) { return Exp32(std::fabs(d)); }));
  Doubles all, left;
  double masked = 0, correct = 0;
  for (size_t r = 0; r < in.rows; ++r) {
    if (samples[r] == 0 || in.Count(r) == 0) continue;
    all.push_back(errors[r]);
    if (threshold.has_value() && errors[r] > *threshold) {
      masked += 1;
      correct += r < in.rewards.size() && in.rewards[r] == 1;
      samples[r] = 0;
    } else {
      left.push_back(errors[r]);
    }
  }
  ResultBuilder out;
  AddErrors("", all, &out);
  AddErrors("_after_mask", left, &out);
  out.Add("num_masked_seqs", masked);
  out.Add("masked_correct_pct", masked > 0 ? correct / masked : 0);
  out.Column("sample_mask", samples);
  return out.Take();
}

Result<DialectResult> Run(const DialectInput& in, std::string_view function,
                          const OptionValue& json) {
  if (function == "compute_and_apply_seq_logprob_error_masking") return RunErrorMask(in, json);
  KCC_TRY(const NemoOptions options, Read(json));
  if (in.advantage.empty() && in.size() > 0) {
    return InvalidError("ClippedPGLossFn needs advantages");
  }
  return NemoLoss(in, options).Run();
}

Result<DialectTranslation> Translate(std::string_view function, const OptionValue& json) {
  DialectTranslation out;
  if (function == "compute_and_apply_seq_logprob_error_masking") {
    KCC_TRY_VOID(ReadErrorMask(json));
    out.complete = false;
    out.notes.emplace_back("rejects by the mean of e^|log w|, which no canonical rule has");
    return out;
  }
  KCC_TRY(const NemoOptions o, Read(json));
  out.warnings.emplace_back(
      "policy_kl_error is k3 of 1/w and dominated by single tokens; gen_kl_error is k3 of w");
  if (!o.corrects) return out;
  RlWeightRule& weight = out.correction.weight;
  weight.level = o.by_sequence ? RlLevel::kSequence : RlLevel::kToken;
  weight.mode = RlWeightMode::kFull;
  if (o.by_sequence) out.warnings.emplace_back(kWarnSequenceIsProduct);
  if (!o.type.has_value()) return out;
  weight.low = o.low.value_or(0);
  weight.high = *o.high;
  if (*o.type == "tis") {
    weight.mode = o.low.has_value() ? RlWeightMode::kClip : RlWeightMode::kTruncate;
  } else if (*o.type == "icepop") {
    weight.mode = RlWeightMode::kMask;
  } else {
    // The band rejects rows; token weights keep their values.
    weight.low = 0;
    out.correction.reject.push_back(
        {RlStatistic::kRatio, RlAggregate::kSequenceMean, *o.low, *o.high});
    out.warnings.emplace_back("\"seq-mask-tis\" does not truncate: token weights are unbounded");
    out.notes.emplace_back("rejected rows keep their place in the loss denominator");
  }
  return out;
}

constexpr DialectFunction kFunctions[] = {
    {"ClippedPGLossFn",
     "use_importance_sampling_correction truncated_importance_sampling_type "
     "truncated_importance_sampling_ratio truncated_importance_sampling_ratio_min "
     "sequence_level_importance_ratios token_level_loss reference_policy_kl_type "
     "reference_policy_kl_penalty"},
    {"compute_and_apply_seq_logprob_error_masking", "seq_logprob_error_threshold"},
};

}  // namespace

constinit const Dialect kNemoDialect = {
    .id = "nemo",
    .aliases = "nemo_rl",
    .title = "NeMo-RL",
    .repository = "NVIDIA-NeMo/RL",
    .commit = "7ea279abf",
    .functions = kFunctions,
    .oddities =
        "Overflowed ratios become weight 0. With sequence ratios `sampling_importance_ratio` "
        "is the sum over rows, not their mean.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
