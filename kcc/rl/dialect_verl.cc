// verl: rollout_corr_helper.py and the debug metrics (its row, at the end, lists the oddities).
//
// Means divide by count + 1e-8 upstream, which float32 does not notice and double would: left out.
#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/numeric/double_math.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

constexpr double kSafetyBound = 20;

struct VerlReject {
  std::string option;  // "seq_mean_k1"
  double low = 0, high = 0;

  bool banded() const { return option.ends_with("k1"); }
  bool by_token() const { return option.starts_with("token"); }
};

struct VerlOptions {
  std::optional<std::string> level;  // of the weights
  double high = 2;
  std::optional<double> low;  // IcePop
  bool batch_normalize = false;
  std::vector<VerlReject> reject;
};

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (!word.empty()) words.emplace_back(word);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return words;
}

// "0.5_2.0" or "2.0".
bool ParseBand(std::string_view text, std::optional<double>* low, double* high) {
  const size_t at = text.find('_');
  const auto upper = ParseNumber(at == std::string_view::npos ? text : text.substr(at + 1));
  if (!upper.has_value()) return false;
  *high = *upper;
  if (at == std::string_view::npos) return true;
  *low = ParseNumber(text.substr(0, at));
  return low->has_value();
}

void ReadWeights(OptionReader& reader, VerlOptions* out) {
  out->level = reader.MaybeWord("rollout_is", {"token", "sequence"});
  out->batch_normalize = reader.Bool("rollout_is_batch_normalize", false);
  const OptionValue* threshold = reader.Value("rollout_is_threshold");
  if (threshold != nullptr) {
    if (threshold->kind == OptionValue::Kind::kNumber) {
      out->high = threshold->number;
    } else if (threshold->kind != OptionValue::Kind::kText ||
               !ParseBand(threshold->text, &out->low, &out->high)) {
      reader.Fail("\"rollout_is_threshold\" must be a number or \"low_high\", not a boolean");
    }
  }
  if (out->high <= 0 || (out->low.has_value() && (*out->low <= 0 || *out->low > out->high))) {
    reader.Fail("\"rollout_is_threshold\" must be positive, with low <= high");
  }
}

void ReadRejects(OptionReader& reader, VerlOptions* out) {
  const auto names = reader.MaybeText("rollout_rs");
  const OptionValue* given = reader.Value("rollout_rs_threshold");
  if (!names.has_value()) return;
  static constexpr std::string_view kKnown[] = {
      "token_k1",    "token_k2",    "token_k3",    "seq_sum_k1", "seq_sum_k2", "seq_sum_k3",
      "seq_mean_k1", "seq_mean_k2", "seq_mean_k3", "seq_max_k2", "seq_max_k3"};
  if (given == nullptr) return reader.Fail("\"rollout_rs\" needs \"rollout_rs_threshold\"");
  std::vector<std::string> specs = given->kind == OptionValue::Kind::kNumber
                                       ? std::vector{ShortestNumber(given->number)}
                                       : SplitWords(given->text);
  std::vector<std::string> options;
  for (const std::string& word : SplitWords(*names)) {
    if (std::find(std::begin(kKnown), std::end(kKnown), word) == std::end(kKnown)) {
      return reader.Fail("\"rollout_rs\" has \"" + word + "\"; it can be " +
                         JoinWords(kKnown, "or"));
    }
    if (std::find(options.begin(), options.end(), word) == options.end()) options.push_back(word);
  }
  if (options.empty()) return reader.Fail("\"rollout_rs\" names no option");
  if (specs.size() == 1) specs.resize(options.size(), specs.front());
  if (specs.size() != options.size()) {
    return reader.Fail("\"rollout_rs_threshold\" must have one threshold, or one for each option");
  }
  for (size_t i = 0; i < options.size(); ++i) {
    VerlReject rule{options[i]};
    std::optional<double> low;
    if (!ParseBand(specs[i], &low, &rule.high) || rule.high <= 0 || low.value_or(1) <= 0) {
      return reader.Fail("\"rollout_rs_threshold\" has \"" + specs[i] +
                         "\", which is no positive threshold");
    }
    if (low.has_value() && !rule.banded()) {
      return reader.Fail("\"" + options[i] + "\" takes one upper bound, not a band");
    }
    rule.low = low.value_or(1 / rule.high);
    if (rule.banded() && rule.low > rule.high) {
      return reader.Fail("the band of \"" + options[i] + "\" has low above high");
    }
    out->reject.push_back(rule);
  }
}

Result<VerlOptions> ReadVerl(const OptionValue& options) {
  OptionReader reader(options);
  VerlOptions out;
  ReadWeights(reader, &out);
  ReadRejects(reader, &out);
  KCC_TRY_VOID(reader.Finish());
  return out;
}

// sqrt(E x^2 - (E x)^2) in the stable form.
double PopulationSd(const DialectInput& in, const Doubles& x) {
  const double mean = in.Mean(x);
  return std::sqrt(in.Mean(MapValues(x, [&](double v) { return (v - mean) * (v - mean); })));
}

double Share(const Doubles& x, const std::function<bool(double)>& test) {
  return MeanOf(MapValues(x, [&](double v) { return test(v) ? 1.0 : 0.0; }));
}

void AddSequenceWeightMetrics(const DialectInput& in, const Doubles& w, const Doubles& raw,
                              double low, double high, ResultBuilder* out) {
  const Doubles means = in.RowMeans(w);
  out->Add("rollout_is_seq_mean", MeanOf(means));
  out->Add("rollout_is_seq_std", means.size() > 1 ? SampleSd(means) : 0);
  out->Add("rollout_is_seq_max", MaxOf(means));
  out->Add("rollout_is_seq_min", MinOf(means));
  out->Add("rollout_is_seq_max_deviation",
           MaxOf(MapValues(means, [](double v) { return std::fabs(v - 1); })));
  const Doubles raw_means = in.RowMeans(raw);
  out->Add("rollout_is_seq_fraction_high", Share(raw_means, [&](double v) { return v > high; }));
  out->Add("rollout_is_seq_fraction_low", Share(raw_means, [&](double v) { return v < low; }));
}

// The weights and their metrics; returns the weights after normalisation.
Doubles AddWeights(const DialectInput& in, const VerlOptions& options, ResultBuilder* out) {
  const bool by_sequence = *options.level == "sequence";
  const double high = options.high;
  const double low = options.low.value_or(1 / high);
  const Doubles sums = in.RowSums(in.d);
  const Doubles log_ratio = by_sequence ? in.Spread(sums) : in.d;
  const Doubles raw = MapTokens(in.size(), [&](size_t i) {
    return in.mask[i] ? Exp(Clamp(log_ratio[i], -kSafetyBound, kSafetyBound)) : 0.0;
  });
  Doubles w = MapValues(raw, [&](double v) {
    if (options.low.has_value()) return v >= *options.low && v <= high ? v : 0.0;
    return std::min(v, high);
  });
  out->Add("rollout_is_mean", in.Mean(w));
  const auto fraction = [&](const std::function<bool(double)>& test) {
    return in.Mean(MapValues(raw, [&](double v) { return test(v) ? 1.0 : 0.0; }));
  };
  if (by_sequence) {
    out->Add("rollout_is_max", Exp(std::min(MaxOf(sums), kSafetyBound)));
    out->Add("rollout_is_min", Exp(MinOf(sums)));
    out->Add("rollout_is_ratio_fraction_high",
             Share(sums, [&](double s) { return s > Log(high); }));
    out->Add("rollout_is_ratio_fraction_low", Share(sums, [&](double s) { return s < Log(low); }));
  } else {
    out->Add("rollout_is_max", MaxOf(in.Valid(w)));
    out->Add("rollout_is_min", MinOf(in.Valid(w)));
    out->Add("rollout_is_ratio_fraction_high", fraction([&](double v) { return v > high; }));
    out->Add("rollout_is_ratio_fraction_low", fraction([&](double v) { return v < low; }));
  }
  out->Add("rollout_is_std", in.Count() > 1 ? PopulationSd(in, w) : 0);
  const double mean = in.Mean(w);
  const double square = in.Mean(MapValues(w, [&](double v) {
    const double x = v / (mean + 1e-8);
    return x * x;
  }));
  out->Add("rollout_is_eff_sample_size", 1 / square);
  AddSequenceWeightMetrics(in, w, raw, low, high, out);
  if (options.low.has_value()) {
    out->Add("rollout_is_oob_ratio", fraction([&](double v) { return v < low || v > high; }));
  }
  if (!options.batch_normalize) return w;
  double factor = mean;
  if (by_sequence) {
    double sum = 0, rows = 0;
    for (size_t r = 0; r < in.rows; ++r) {
      if (in.Count(r) == 0) continue;
      sum += in.RowMean(w, r);
      rows += 1;
    }
    factor = rows > 0 ? sum / rows : 0;
  }
  if (!(factor > 1e-8)) factor = 1;
  out->Add("rollout_is_batch_norm_factor", factor);
  for (double& v : w) v /= factor;
  return w;
}

Doubles TokenStatistic(const DialectInput& in, const VerlReject& rule) {
  return MapValues(in.d, [&](double value) {
    const double d = Clamp(value, -kSafetyBound, kSafetyBound);
    if (rule.option.ends_with("k1")) return -d;
    if (rule.option.ends_with("k2")) return d * d / 2;
    return ExpResidual(d);
  });
}

double RowMax(const DialectInput& in, const Doubles& x, size_t row) {
  double best = -std::numeric_limits<double>::infinity();
  for (size_t i = in.begin(row); i < in.end(row); ++i) {
    if (in.mask[i] != 0) best = std::max(best, x[i]);
  }
  return std::isinf(best) ? 0 : best;
}

// One rejection option: its metrics, and 0 in `keep` for what it rejects.
void AddReject(const DialectInput& in, const VerlReject& rule, Doubles* keep, ResultBuilder* out) {
  const std::string prefix = "rollout_rs_" + rule.option + "_";
  const double high = rule.banded() ? Log(rule.high) : rule.high;
  const double low = rule.banded() ? Log(rule.low) : 0;
  const bool has_low = rule.banded();
  const Doubles by_token = TokenStatistic(in, rule);
  Doubles rows = rule.option.starts_with("seq_sum") ? in.RowSums(by_token) : in.RowMeans(by_token);
  if (rule.option.starts_with("seq_max")) {
    rows = MapTokens(in.rows, [&](size_t r) { return RowMax(in, by_token, r); });
  }
  const Doubles statistic = rule.by_token() ? by_token : in.Spread(rows);
  Doubles filled;  // rows with a token
  for (size_t r = 0; r < in.rows; ++r) {
    if (in.Count(r) > 0) filled.push_back(rows[r]);
  }
  const Doubles valid = in.Valid(statistic);
  const Doubles& judged = rule.by_token() ? valid : filled;
  const auto above = [&](double v) { return v > high; };
  const auto below = [&](double v) { return has_low && v < low; };
  out->Add(prefix + "mean", in.Mean(statistic));
  out->Add(prefix + "max", MaxOf(judged));
  out->Add(prefix + "min", MinOf(judged));
  out->Add(prefix + "fraction_high", Share(judged, above));
  out->Add(prefix + "fraction_low", Share(judged, below));
  out->Add(
      prefix + "std",
      in.Count() > 1
          ? PopulationSd(in, MapValues(statistic, [&](double v) { return Clamp(v, low, high); }))
          : 0);
  out->Add(prefix + "seq_mean", MeanOf(filled));
  out->Add(prefix + "seq_std", filled.size() > 1 ? SampleSd(filled) : 0);
  out->Add(prefix + "seq_max", MaxOf(filled));
  out->Add(prefix + "seq_min", MinOf(filled));
  out->Add(prefix + "seq_max_deviation",
           MaxOf(MapValues(filled, [](double v) { return std::fabs(v); })));
  out->Add(prefix + "seq_fraction_high", Share(filled, above));
  if (has_low) out->Add(prefix + "seq_fraction_low", Share(filled, below));
  const Doubles dropped = MapValues(
      statistic, [&](double v) { return v <= high && (!has_low || v >= low) ? 0.0 : 1.0; });
  for (size_t i = 0; i < in.size(); ++i) (*keep)[i] *= 1 - dropped[i];
  out->Add(prefix + "masked_fraction", in.Mean(dropped));
  double touched = 0;
  for (size_t r = 0; r < in.rows; ++r) touched += in.RowSum(dropped, r) > 0;
  out->Add(prefix + "seq_masked_fraction",
           touched / std::max(1.0, static_cast<double>(filled.size())));
}

void AddOffPolicy(const DialectInput& in, ResultBuilder* out) {
  const Doubles train = in.RowMeans(in.train);
  const Doubles rollout = in.RowMeans(in.rollout);
  const auto minus = [](double v) { return -v; };
  const auto ppl = [](double v) { return Exp32(-v); };
  out->Add("training_ppl", MeanOf(MapValues(train, ppl)));
  out->Add("training_log_ppl", MeanOf(MapValues(train, minus)));
  out->Add("kl", in.Mean(MapValues(in.d, minus)));
  out->Add("k3_kl", in.Mean(MapValues(in.d, [](double d) {
    return std::isinf(Exp32(d)) ? Exp32(d) : ExpResidual(d);
  })));
  out->Add("rollout_ppl", MeanOf(MapValues(rollout, ppl)));
  out->Add("rollout_log_ppl", MeanOf(MapValues(rollout, minus)));
  const Doubles diff = MapTokens(in.rows, [&](size_t r) { return rollout[r] - train[r]; });
  out->Add("log_ppl_diff", MeanOf(diff));
  out->Add("log_ppl_abs_diff", MeanOf(MapValues(diff, [](double v) { return std::fabs(v); })));
  out->Add("log_ppl_diff_max", MaxOf(diff));
  out->Add("log_ppl_diff_min", MinOf(diff));
  out->Add("ppl_ratio", MeanOf(MapValues(diff, Exp32)));
  out->Add("chi2_token", in.Mean(MapValues(in.d, [](double d) {
    return Exp(2 * Clamp(d, -kSafetyBound, kSafetyBound));
  })) - 1);
  out->Add(
      "chi2_seq",
      MeanOf(MapValues(in.RowSums(in.d),
                       [](double s) { return Exp(2 * Clamp(s, -kSafetyBound, kSafetyBound)); })) -
          1);
}

void AddDebug(const DialectInput& in, ResultBuilder* out) {
  const Doubles p = MapValues(in.Valid(in.train), Exp);
  const Doubles q = MapValues(in.Valid(in.rollout), Exp);
  const Doubles gap = MapTokens(p.size(), [&](size_t i) { return std::fabs(p[i] - q[i]); });
  out->Add("training/rollout_probs_diff_valid", 1);
  out->Add("training/rollout_probs_diff_max", MaxOf(gap));
  out->Add("training/rollout_probs_diff_mean", MeanOf(gap));
  out->Add("training/rollout_probs_diff_std", SampleSd(gap));
  const double mean_p = MeanOf(p), mean_q = MeanOf(q);
  double pq = 0, pp = 0, qq = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    pq += (p[i] - mean_p) * (q[i] - mean_q);
    pp += (p[i] - mean_p) * (p[i] - mean_p);
    qq += (q[i] - mean_q) * (q[i] - mean_q);
  }
  out->Add("training/rollout_actor_probs_pearson_corr", pq / std::sqrt(pp * qq));
}

Result<DialectResult> Run(const DialectInput& in, std::string_view, const OptionValue& json) {
  KCC_TRY(const VerlOptions options, ReadVerl(json));
  if (in.Count() == 0) return InvalidError("verl refuses a mask without a valid token");
  ResultBuilder out("rollout_corr/");
  std::optional<Doubles> weights;
  if (options.level.has_value()) weights = AddWeights(in, options, &out);
  Doubles keep(in.size(), 1.0);
  if (!options.reject.empty()) {
    for (const VerlReject& rule : options.reject) AddReject(in, rule, &keep, &out);
    const Doubles dropped = MapValues(keep, [](double k) { return 1 - k; });
    out.Add("rollout_rs_masked_fraction", in.Mean(dropped));
    double touched = 0;
    for (size_t r = 0; r < in.rows; ++r) touched += in.RowSum(dropped, r) > 0;
    out.Add("rollout_rs_seq_masked_fraction", touched / static_cast<double>(in.rows));
  }
  AddOffPolicy(in, &out);
  ResultBuilder debug;
  AddDebug(in, &debug);
  DialectResult result = out.Take();
  DialectResult more = debug.Take();
  result.metrics.insert(result.metrics.end(), more.metrics.begin(), more.metrics.end());
  ResultBuilder arrays;
  if (weights.has_value()) arrays.Array("weights", in, std::move(*weights));
  arrays.Array("mask", in, MapTokens(in.size(), [&](size_t i) { return in.mask[i] * keep[i]; }));
  result.arrays = arrays.Take().arrays;
  return result;
}

Result<DialectTranslation> Translate(std::string_view, const OptionValue& json) {
  KCC_TRY(const VerlOptions options, ReadVerl(json));
  DialectTranslation out;
  if (options.level.has_value()) {
    RlWeightRule& weight = out.correction.weight;
    weight.level = *options.level == "sequence" ? RlLevel::kSequence : RlLevel::kToken;
    weight.mode = options.low.has_value() ? RlWeightMode::kMask : RlWeightMode::kTruncate;
    weight.low = options.low.value_or(0);
    weight.high = options.high;
    weight.batch_normalize = options.batch_normalize;
    if (weight.level == RlLevel::kSequence) out.warnings.emplace_back(kWarnSequenceIsProduct);
    out.notes.emplace_back("log-ratios are clamped to 20 either way before the exponential");
  }
  for (const VerlReject& rule : options.reject) {
    RlRejectRule reject;
    reject.statistic = rule.option.ends_with("k1")   ? RlStatistic::kK1
                       : rule.option.ends_with("k2") ? RlStatistic::kK2
                                                     : RlStatistic::kK3;
    reject.aggregate = rule.by_token()                       ? RlAggregate::kTokenwise
                       : rule.option.starts_with("seq_sum")  ? RlAggregate::kSequenceSum
                       : rule.option.starts_with("seq_mean") ? RlAggregate::kSequenceMean
                                                             : RlAggregate::kSequenceMax;
    reject.low = rule.banded() ? rule.low : 0;
    reject.high = rule.high;
    out.correction.reject.push_back(reject);
    if (rule.banded()) {
      out.warnings.push_back(
          "the band of \"" + rule.option + "\" bounds 1/w, though verl's documentation says w: [" +
          ShortestNumber(rule.low) + ", " + ShortestNumber(rule.high) + "] keeps w in [" +
          ReadableNumber(1 / rule.high) + ", " + ReadableNumber(1 / rule.low) + "]");
    }
  }
  return out;
}

constexpr DialectFunction kFunctions[] = {
    {"compute_rollout_correction_and_rejection_mask",
     "rollout_is rollout_is_threshold rollout_is_batch_normalize rollout_rs rollout_rs_threshold"},
};

}  // namespace

constinit const Dialect kVerlDialect = {
    .id = "verl",
    .title = "verl",
    .repository = "verl-project/verl",
    .commit = "1dda039b9",
    .functions = kFunctions,
    .oddities =
        "The debug metrics come with the function. `k3_kl` and `ppl_ratio` are not clamped; "
        "sequence-mode `rollout_is_min` has no lower clamp. Fully masked rows count in "
        "`rollout_is_seq_*` as 0. Token-mode `rollout_is_max` is after truncation, "
        "sequence-mode before. `training/rollout_probs_diff_*` are of probabilities. Chi² "
        "metrics are sample estimates and can be negative.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
