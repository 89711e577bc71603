// slime and miles: compute_mis_weights (mis.py), the core TIS and IcePop functions, and OPSM, as
// the training step reports them: a metric is averaged over each row's valid tokens, then over rows
// (per_token_loss: over tokens, a fully masked row counting as one).
#include <algorithm>
#include <cmath>

#include "kcc/numeric/double_math.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

struct SlimeOptions {
  bool use_tis = true, use_rs = true;
  std::string tis_level = "token", rs_level = "token", tis_mode = "truncate";
  double tis_low = 0.5, tis_high = 2, rs_low = 0.5, rs_high = 2;
  std::optional<double> veto;
  bool batch_normalize = true;
  bool per_token = false;
};

Result<SlimeOptions> ReadMis(const OptionValue& json) {
  OptionReader reader(json);
  SlimeOptions out;
  out.use_tis = reader.Bool("use_tis", true);
  out.use_rs = reader.Bool("use_rs", true);
  out.tis_level = reader.Word("tis_level", "token", {"token", "sequence", "geometric"});
  out.rs_level = reader.Word("rs_level", "token", {"token", "sequence", "geometric"});
  out.tis_mode = reader.Word("tis_mode", "truncate", {"truncate", "clip", "mask"});
  out.tis_high = reader.Number("tis_upper_bound", 2);
  out.tis_low = reader.MaybeNumber("tis_lower_bound", 0.5).value_or(1 / out.tis_high);
  out.rs_low = reader.MaybeNumber("rs_lower_bound").value_or(out.tis_low);
  out.rs_high = reader.MaybeNumber("rs_upper_bound").value_or(out.tis_high);
  out.veto = reader.MaybeNumber("rs_veto_threshold", 1e-4);
  out.batch_normalize = reader.Bool("tis_batch_normalize", true);
  out.per_token = reader.Bool("calculate_per_token_loss", false);
  KCC_TRY_VOID(reader.Finish());
  if (out.use_tis && out.tis_mode != "truncate" && !(out.tis_low < out.tis_high)) {
    return InvalidError("tis_lower_bound must be below tis_upper_bound");
  }
  if (out.use_tis && out.use_rs && !(out.rs_low < out.rs_high)) {
    return InvalidError("rs_lower_bound must be below rs_upper_bound");
  }
  if (out.use_tis && out.batch_normalize && out.tis_level == "geometric") {
    return InvalidError("tis_batch_normalize does not go with the geometric level");
  }
  return out;
}

// Rows' means averaged over rows, or tokens' mean, with the numerator's mask given.
double Reduce(const DialectInput& in, bool per_token, const Doubles& x,
              const std::vector<uint8_t>* numerator = nullptr) {
  double sum = 0, tokens = 0;
  for (size_t r = 0; r < in.rows; ++r) {
    double row = 0;
    for (size_t i = in.begin(r); i < in.end(r); ++i) {
      if ((numerator != nullptr ? (*numerator)[i] : in.mask[i]) != 0) row += x[i];
    }
    const double count = std::max(1.0, in.Count(r));
    sum += per_token ? row : row / count;
    tokens += count;
  }
  return sum / (per_token ? tokens : static_cast<double>(in.rows));
}

double Safe(double d) { return Clamp(d, -20, 20); }

void AddCore(const DialectInput& in, bool per_token, const Doubles& ratio, const Doubles& weights,
             const std::vector<uint8_t>& kept, ResultBuilder* out) {
  Doubles loss(in.size()), clipped(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const double a = in.advantage[i];
    const double plain = -ratio[i] * a;
    const double bounded = -Clamp(ratio[i], 0.8, 1.2) * a;
    loss[i] = std::max(plain, bounded) * weights[i];
    clipped[i] = bounded > plain ? 1 : 0;
  }
  out->Add("pg_loss", Reduce(in, per_token, loss, &kept));
  out->Add("pg_clipfrac", Reduce(in, per_token, clipped, &kept));
  out->Add("ppo_kl",
           Reduce(in, per_token, MapValues(ratio, [](double w) { return -Log(w); }), &kept));
  const Doubles gap = MapValues(in.d, [](double d) { return std::fabs(d); });
  out->Add("train_rollout_logprob_abs_diff", Reduce(in, per_token, gap, &kept));
}

void AddPerplexity(const DialectInput& in, bool per_token, ResultBuilder* out) {
  const auto add = [&](std::string_view name, const Doubles& x) {
    out->Add("mis_" + std::string(name), Reduce(in, per_token, x));
  };
  const auto add_rows = [&](std::string_view name, const Doubles& rows,
                            const std::function<double(double)>& f) {
    add(name, in.Spread(MapValues(rows, f)));
  };
  const auto minus = [](double v) { return -v; };
  const auto ppl = [](double v) { return Exp32(-v); };
  const Doubles train = in.RowMeans(in.train);
  const Doubles rollout = in.RowMeans(in.rollout);
  const Doubles diff = MapTokens(in.rows, [&](size_t r) { return rollout[r] - train[r]; });
  add_rows("training_log_ppl", train, minus);
  add_rows("training_ppl", train, ppl);
  add_rows("rollout_log_ppl", rollout, minus);
  add_rows("rollout_ppl", rollout, ppl);
  add("kl", MapValues(in.d, minus));
  add("k3_kl",
      MapValues(in.d, [](double d) { return std::isinf(Exp32(d)) ? Exp32(d) : ExpResidual(d); }));
  add_rows("log_ppl_diff", diff, [](double v) { return v; });
  add_rows("log_ppl_abs_diff", diff, [](double v) { return std::fabs(v); });
  add_rows("ppl_ratio", diff, Exp32);
  add("chi2_token", MapValues(in.d, [](double d) { return Expm1(2 * Safe(d)); }));
  add_rows("chi2_seq", in.RowSums(in.d), [](double s) { return Expm1(2 * Safe(s)); });
}

Doubles LevelRatio(const DialectInput& in, const std::string& level) {
  Doubles logs = in.d;
  if (level == "sequence") logs = in.Spread(in.RowSums(in.d));
  if (level == "geometric") logs = in.Spread(in.RowMeans(in.d));
  return MapValues(logs, [](double d) { return Exp(Safe(d)); });
}

// What mis.py calls mask(): fractions, and 0 in `kept` outside the band.
void MaskOutside(const DialectInput& in, bool per_token, const Doubles& w, double low, double high,
                 const std::string& prefix, std::vector<uint8_t>* kept, ResultBuilder* out) {
  const auto share = [&](const std::function<bool(double)>& test) {
    return Reduce(in, per_token, MapValues(w, [&](double v) { return test(v) ? 1.0 : 0.0; }));
  };
  out->Add(prefix + "_fraction_low", share([&](double v) { return v < low; }));
  out->Add(prefix + "_fraction_high", share([&](double v) { return v > high; }));
  if (kept == nullptr) return;
  for (size_t i = 0; i < w.size(); ++i) (*kept)[i] &= w[i] >= low && w[i] <= high;
}

Doubles BoundWeights(const DialectInput& in, const SlimeOptions& o, std::vector<uint8_t>* kept,
                     ResultBuilder* out) {
  Doubles w = LevelRatio(in, o.tis_level);
  out->Add("mis_tis_weight_before_bound", Reduce(in, o.per_token, w));
  if (o.tis_mode == "truncate") {
    out->Add("mis_tis_truncate_fraction", Reduce(in, o.per_token, MapValues(w, [&](double v) {
                                                   return v > o.tis_high ? 1.0 : 0.0;
                                                 })));
    for (double& v : w) v = Clamp(v, 0, o.tis_high);
  } else if (o.tis_mode == "clip") {
    MaskOutside(in, o.per_token, w, o.tis_low, o.tis_high, "mis_tis_clip", nullptr, out);
    for (double& v : w) v = Clamp(v, o.tis_low, o.tis_high);
  } else {
    MaskOutside(in, o.per_token, w, o.tis_low, o.tis_high, "mis_tis_mask", kept, out);
  }
  for (size_t i = 0; i < w.size(); ++i) w[i] *= in.mask[i];
  out->Add("mis_tis_weight_after_bound", Reduce(in, o.per_token, w));
  return w;
}

void RejectRows(const DialectInput& in, const SlimeOptions& o, std::vector<uint8_t>* kept,
                ResultBuilder* out) {
  MaskOutside(in, o.per_token, LevelRatio(in, o.rs_level), o.rs_low, o.rs_high, "mis_rs_mask", kept,
              out);
  if (!o.veto.has_value()) return;
  const double low = Log(*o.veto);
  Doubles bad(in.size()), rows(in.rows);
  for (size_t r = 0; r < in.rows; ++r) {
    for (size_t i = in.begin(r); i < in.end(r); ++i) {
      bad[i] = in.mask[i] && in.d[i] < low ? 1 : 0;
      rows[r] = std::max(rows[r], bad[i]);
    }
    for (size_t i = in.begin(r); i < in.end(r); ++i) (*kept)[i] &= rows[r] == 0;
  }
  out->Add("mis_rs_catastrophic_token_fraction", Reduce(in, o.per_token, bad));
  out->Add("mis_rs_catastrophic_seq_fraction", Reduce(in, o.per_token, in.Spread(rows)));
}

void Normalize(const DialectInput& in, const SlimeOptions& o, Doubles* w, ResultBuilder* out) {
  double mean = in.Mean(*w);
  if (o.tis_level == "sequence") mean = MeanOf(in.RowMeans(*w));
  if (!(mean > 1e-8)) mean = 1;
  for (double& v : *w) v /= mean;
  out->Add("mis_batch_norm_factor", Reduce(in, o.per_token, Doubles(in.size(), mean)));
}

void AddFinal(const DialectInput& in, bool per_token, const Doubles& w, ResultBuilder* out) {
  Doubles low(in.rows), high(in.rows);
  for (size_t r = 0; r < in.rows; ++r) {
    Doubles valid;
    for (size_t i = in.begin(r); i < in.end(r); ++i) {
      if (in.mask[i]) valid.push_back(w[i]);
    }
    low[r] = valid.empty() ? 0 : MinOf(valid);
    high[r] = valid.empty() ? 0 : MaxOf(valid);
  }
  out->Add("mis_is_ratio_mean_final", Reduce(in, per_token, w));
  out->Add("mis_is_ratio_min_final", Reduce(in, per_token, in.Spread(low)));
  out->Add("mis_is_ratio_max_final", Reduce(in, per_token, in.Spread(high)));
}

DialectResult RunMis(const DialectInput& in, const SlimeOptions& o) {
  ResultBuilder mis;
  std::vector<uint8_t> kept = in.mask;
  Doubles weights(in.size(), 1.0);
  AddPerplexity(in, o.per_token, &mis);
  if (o.use_tis) {
    weights = BoundWeights(in, o, &kept, &mis);
    if (o.use_rs) RejectRows(in, o, &kept, &mis);
    mis.Add("mis_is_ratio_mean_after_tis_rs", Reduce(in, o.per_token, weights));
    if (o.batch_normalize) Normalize(in, o, &weights, &mis);
    AddFinal(in, o.per_token, weights, &mis);
  }
  ResultBuilder out;
  AddCore(in, o.per_token, Doubles(in.size(), 1.0), weights, kept, &out);
  out.Add("ois", Reduce(in, o.per_token, Doubles(in.size(), 1.0)));
  DialectResult result = out.Take();
  DialectResult more = mis.Take();
  result.metrics.insert(result.metrics.end(), more.metrics.begin(), more.metrics.end());
  ResultBuilder arrays;
  if (o.use_tis) arrays.Array("weights", in, std::move(weights));
  arrays.Array("mask", in, Doubles(kept.begin(), kept.end()));
  result.arrays = arrays.Take().arrays;
  return result;
}

struct CoreOptions {
  double high = 2, low = 0;
  bool per_token = false;
};

Result<CoreOptions> ReadCore(const OptionValue& json) {
  OptionReader reader(json);
  CoreOptions out;
  reader.Bool("use_tis", true);
  out.high = reader.Number("tis_clip", 2);
  out.low = reader.Number("tis_clip_low", 0);
  out.per_token = reader.Bool("calculate_per_token_loss", false);
  KCC_TRY_VOID(reader.Finish());
  return out;
}

Result<DialectResult> RunCore(const DialectInput& in, bool icepop, const OptionValue& json) {
  KCC_TRY(const CoreOptions o, ReadCore(json));
  const Doubles ratio = MapValues(in.d, Exp32);
  const Doubles weights = MapValues(ratio, [&](double w) {
    if (icepop) return w >= o.low && w <= o.high ? w : 0.0;
    return Clamp(w, o.low, o.high);
  });
  ResultBuilder out;
  const Doubles ones(in.size(), 1.0);
  AddCore(in, o.per_token, ones, weights, in.mask, &out);
  out.Add("ois", Reduce(in, o.per_token, ones));
  out.Add("tis", Reduce(in, o.per_token, ratio));
  out.Add("tis_clipfrac", Reduce(in, o.per_token, MapTokens(in.size(), [&](size_t i) {
                                   return weights[i] != ratio[i] ? 1.0 : 0.0;
                                 })));
  out.Add("tis_abs",
          Reduce(in, o.per_token, MapValues(in.d, [](double d) { return std::fabs(Expm1(d)); })));
  out.Array("weights", in, weights);
  out.Array("mask", in, Doubles(in.mask.begin(), in.mask.end()));
  return out.Take();
}

struct OpsmOptions {
  double delta = 1e-4;
  bool old_is_rollout = true, per_token = false;
};

Result<OpsmOptions> ReadOpsm(const OptionValue& json) {
  OptionReader reader(json);
  OpsmOptions out;
  reader.Bool("use_opsm", true);
  out.delta = reader.Number("opsm_delta", 1e-4);
  out.old_is_rollout = reader.Bool("use_rollout_logprobs", true);
  out.per_token = reader.Bool("calculate_per_token_loss", false);
  KCC_TRY_VOID(reader.Finish());
  return out;
}

Result<DialectResult> RunOpsm(const DialectInput& in, const OptionValue& json) {
  KCC_TRY(const OpsmOptions o, ReadOpsm(json));
  if (in.row_advantage.empty() && in.rows > 0) {
    return InvalidError("compute_opsm_mask needs one advantage a row");
  }
  const Doubles logs = o.old_is_rollout ? in.d : Doubles(in.size(), 0.0);
  const Doubles mean = in.RowMeans(logs);
  Doubles keep(in.rows, 1.0);
  double dropped = 0;
  for (size_t r = 0; r < in.rows; ++r) {
    if (in.row_advantage[r] < 0 && -mean[r] > o.delta) {
      keep[r] = 0;
      dropped += static_cast<double>(in.end(r) - in.begin(r)) / std::max(1.0, in.Count(r));
    }
  }
  ResultBuilder out;
  const Doubles mask = in.Spread(keep);
  AddCore(in, o.per_token, MapValues(logs, Exp32), mask, in.mask, &out);
  double tokens = 0;
  for (size_t r = 0; r < in.rows; ++r) tokens += std::max(1.0, in.Count(r));
  out.Add("opsm_clipfrac", dropped / (o.per_token ? tokens : static_cast<double>(in.rows)));
  out.Array("opsm_mask", in, mask);
  return out.Take();
}

Result<DialectResult> Run(const DialectInput& in, std::string_view function,
                          const OptionValue& json) {
  if (in.advantage.empty() && in.size() > 0) return InvalidError("slime needs advantages");
  if (function == "compute_opsm_mask") return RunOpsm(in, json);
  if (function == "vanilla_tis_function") return RunCore(in, false, json);
  if (function == "icepop_function") return RunCore(in, true, json);
  KCC_TRY(const SlimeOptions options, ReadMis(json));
  return RunMis(in, options);
}

RlLevel LevelOf(const std::string& word) {
  if (word == "sequence") return RlLevel::kSequence;
  return word == "geometric" ? RlLevel::kGeometric : RlLevel::kToken;
}

RlAggregate AggregateOf(const std::string& word) {
  if (word == "sequence") return RlAggregate::kSequenceSum;
  return word == "geometric" ? RlAggregate::kSequenceMean : RlAggregate::kTokenwise;
}

DialectTranslation TranslateMis(const SlimeOptions& o) {
  DialectTranslation out;
  if (!o.use_tis) {
    if (o.use_rs) out.warnings.emplace_back("without use_tis nothing is rejected either");
    return out;
  }
  RlWeightRule& weight = out.correction.weight;
  weight.level = LevelOf(o.tis_level);
  weight.high = o.tis_high;
  weight.batch_normalize = o.batch_normalize;
  if (o.tis_level == "sequence") out.warnings.emplace_back(kWarnSequenceIsProduct);
  if (o.tis_mode == "truncate") {
    weight.mode = RlWeightMode::kTruncate;
  } else if (o.tis_mode == "clip") {
    weight.mode = RlWeightMode::kClip;
    weight.low = o.tis_low;
  } else {
    weight.mode = RlWeightMode::kFull;
    out.correction.reject.push_back(
        {RlStatistic::kRatio, AggregateOf(o.tis_level), o.tis_low, o.tis_high});
    out.warnings.emplace_back(
        "\"mask\" changes the loss mask and leaves the weights; elsewhere it zeroes weights");
  }
  if (o.use_rs) {
    out.correction.reject.push_back(
        {RlStatistic::kRatio, AggregateOf(o.rs_level), o.rs_low, o.rs_high});
    if (o.veto.has_value()) out.correction.veto = RlVeto{*o.veto, 0};
  }
  out.notes.emplace_back("metrics average rows and use the mask before rejection");
  return out;
}

Result<DialectTranslation> Translate(std::string_view function, const OptionValue& json) {
  if (function == "compute_opsm_mask") {
    KCC_TRY_VOID(ReadOpsm(json));
    DialectTranslation out;
    out.complete = false;
    out.notes.emplace_back("OPSM drops rows by the advantage's sign, which no canonical rule does");
    return out;
  }
  if (function != "compute_mis_weights") {
    KCC_TRY(const CoreOptions o, ReadCore(json));
    DialectTranslation out;
    RlWeightRule& weight = out.correction.weight;
    weight.low = o.low;
    weight.high = o.high;
    weight.mode = function == "icepop_function" ? RlWeightMode::kMask
                  : o.low > 0                   ? RlWeightMode::kClip
                                                : RlWeightMode::kTruncate;
    return out;
  }
  KCC_TRY(const SlimeOptions options, ReadMis(json));
  return TranslateMis(options);
}

constexpr DialectFunction kFunctions[] = {
    {"compute_mis_weights",
     "use_tis use_rs tis_level rs_level tis_mode tis_lower_bound tis_upper_bound rs_lower_bound "
     "rs_upper_bound rs_veto_threshold tis_batch_normalize calculate_per_token_loss"},
    {"vanilla_tis_function", "use_tis tis_clip tis_clip_low calculate_per_token_loss"},
    {"icepop_function", "use_tis tis_clip tis_clip_low calculate_per_token_loss"},
    {"compute_opsm_mask", "use_opsm opsm_delta use_rollout_logprobs calculate_per_token_loss"},
};

}  // namespace

constinit const Dialect kSlimeDialect = {
    .id = "slime",
    .aliases = "miles",
    .title = "slime",
    .repository = "THUDM/slime",
    .commit = "624b824a8",
    .functions = kFunctions,
    .oddities =
        "Metrics average each row, then rows, on the mask before rejection; an empty row "
        "counts as 0. `geometric` with normalisation is refused. The veto looks at unclamped "
        "tokens.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
