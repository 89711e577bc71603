// AReaL's apply_rejection_sampling and what ppo_actor_loss_fn reports of it. kl_k1 is +d and kl_k3
// is of 1/w; a log-ratio that is not finite counts as 0 for ratios and fails every KL bound.
#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/numeric/double_math.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

struct ArealOptions {
  bool by_sequence = false, clamps = false;
  std::string metric = "ratio", agg = "mean";
  double upper = 5;
  std::optional<double> lower;

  bool Inside(double x) const { return x <= upper && (!lower.has_value() || x >= *lower); }
};

Result<ArealOptions> Read(const OptionValue& json) {
  OptionReader reader(json);
  ArealOptions out;
  out.by_sequence = reader.Word("level", "token", {"token", "sequence"}) == "sequence";
  out.clamps = reader.Word("action", "mask", {"mask", "clamp"}) == "clamp";
  out.metric = reader.Word("metric", "ratio", {"ratio", "kl_k1", "kl_k2", "kl_k3"});
  out.agg = reader.Word("agg", "mean", {"sum", "mean", "max"});
  out.upper = reader.Number("upper", 5);
  out.lower = reader.MaybeNumber("lower");
  KCC_TRY_VOID(reader.Finish());
  if (out.metric == "ratio" && !(out.upper > 1)) {
    return InvalidError("\"upper\" must be above 1 for ratios");
  }
  if (out.metric == "ratio" && out.lower.has_value() && !(*out.lower > 0)) {
    return InvalidError("\"lower\" must be above 0 for ratios");
  }
  if (out.lower.has_value() && *out.lower > out.upper) {
    return InvalidError("\"lower\" is above \"upper\"");
  }
  if (out.clamps && out.metric != "ratio") {
    return InvalidError("\"clamp\" goes with the ratio metric only");
  }
  return out;
}

double Finite(double d) { return std::isfinite(d) ? d : 0; }

double Metric(const std::string& name, double d) {
  if (name == "ratio") return Finite(d);  // in logs; the comparison exponentiates
  if (name == "kl_k1") return d;
  if (name == "kl_k2") return d * d / 2;
  return std::isfinite(d) ? ExpResidual(-d) : Exp32(-d) - 1 + d;
}

double Aggregate(const DialectInput& in, const std::string& agg, const Doubles& x, size_t row) {
  if (agg == "sum") return in.RowSum(x, row);
  if (agg == "mean") return in.RowMean(x, row);
  Doubles valid;
  for (size_t i = in.begin(row); i < in.end(row); ++i) {
    if (in.mask[i]) valid.push_back(x[i]);
  }
  return valid.empty() ? 0 : MaxOf(valid);
}

struct Outcome {
  Doubles weights;
  std::vector<uint8_t> mask;
  double filtered = 0;
};

Outcome Reject(const DialectInput& in, const ArealOptions& o) {
  const bool ratio = o.metric == "ratio";
  const Doubles logs = MapValues(in.d, Finite);
  Outcome out;
  out.weights = MapValues(logs, Exp32);
  Doubles metric = MapValues(in.d, [&](double d) { return Metric(o.metric, d); });
  if (o.by_sequence) {
    if (ratio) out.weights = in.Spread(MapValues(in.RowMeans(logs), Exp32));
    metric =
        in.Spread(MapTokens(in.rows, [&](size_t r) { return Aggregate(in, o.agg, metric, r); }));
  }
  if (ratio) metric = MapValues(metric, Exp32);
  out.mask = in.mask;
  double touched = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool inside = o.Inside(metric[i]);
    if (!o.clamps) {
      touched += in.mask[i] && !inside;
      out.mask[i] &= inside;
    } else if (!inside || !o.by_sequence) {
      const double bounded = Clamp(out.weights[i], o.lower.value_or(0), o.upper);
      touched += in.mask[i] && bounded != out.weights[i];
      out.weights[i] = bounded;
    }
    if (out.mask[i] == 0) out.weights[i] = 0;
  }
  out.filtered = touched / std::max(1.0, in.Count());
  return out;
}

void AddTracked(std::string_view name, const Doubles& values, ResultBuilder* out) {
  if (values.empty()) return;
  out->Add(std::string(name) + "/avg", MeanOf(values));
  if (!std::isinf(MinOf(values))) out->Add(std::string(name) + "/min", MinOf(values));
  if (!std::isinf(MaxOf(values))) out->Add(std::string(name) + "/max", MaxOf(values));
}

Result<DialectResult> Run(const DialectInput& in, std::string_view, const OptionValue& json) {
  KCC_TRY(const ArealOptions options, Read(json));
  if (in.advantage.empty() && in.size() > 0) return InvalidError("AReaL needs advantages");
  Outcome got = Reject(in, options);
  Doubles weights, logs;
  double loss = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    if (got.mask[i] == 0) continue;
    // The PPO ratio of a log-prob with itself: 1, and NaN for -inf.
    const double ppo = std::isfinite(in.train[i]) ? 1 : std::nan("");
    loss += -in.advantage[i] * ppo * got.weights[i];
    if (got.weights[i] > 0) {
      weights.push_back(got.weights[i]);
      logs.push_back(in.d[i]);
    }
  }
  ResultBuilder out;
  out.Add("unclipped_behave_tokens", static_cast<double>(weights.size()));
  AddTracked("behave_imp_weight", weights, &out);
  AddTracked("behave_approx_kl", logs, &out);
  out.Add("rs_filtered_fraction", got.filtered);
  out.Add("filtered_fraction", got.filtered);
  out.Add("loss", loss / std::max(1.0, in.Count()));
  out.Array("weights", in, std::move(got.weights));
  out.Array("mask", in, Doubles(got.mask.begin(), got.mask.end()));
  return out.Take();
}

RlRejectRule RejectRule(const ArealOptions& o, DialectTranslation* out) {
  RlRejectRule rule;
  rule.aggregate = !o.by_sequence    ? RlAggregate::kTokenwise
                   : o.agg == "sum"  ? RlAggregate::kSequenceSum
                   : o.agg == "mean" ? RlAggregate::kSequenceMean
                                     : RlAggregate::kSequenceMax;
  rule.high = o.upper;
  rule.low = o.lower.value_or(0);
  if (o.metric == "kl_k1") {
    rule.low = o.lower.has_value() ? Exp(*o.lower) : 0;
    rule.high = Exp(o.upper);
    out->warnings.emplace_back("kl_k1 is +log w here and -log w in verl: the band is turned round");
  } else if (o.metric == "kl_k2") {
    rule.statistic = RlStatistic::kK2;
  } else if (o.metric == "kl_k3") {
    rule.statistic = RlStatistic::kK3;
    out->complete = false;
    out->warnings.emplace_back(
        "kl_k3 is of 1/w here (e^-d - 1 + d), though the help says r - log r - 1 with r = w; no "
        "canonical rule has it");
  }
  if (o.by_sequence && o.agg == "max" && o.lower.has_value()) {
    out->complete = false;
    out->notes.emplace_back("a lower bound on the maximum has no canonical counterpart");
  }
  return rule;
}

Result<DialectTranslation> Translate(std::string_view, const OptionValue& json) {
  KCC_TRY(const ArealOptions o, Read(json));
  DialectTranslation out;
  RlWeightRule& weight = out.correction.weight;
  weight.mode = RlWeightMode::kFull;
  if (o.by_sequence && o.metric == "ratio") {
    weight.level = RlLevel::kGeometric;
    out.warnings.emplace_back(kWarnSequenceIsGeometric);
    if (o.agg != "mean") {
      out.warnings.push_back("the weight is the geometric mean whatever agg is; agg \"" + o.agg +
                             "\" only decides which rows are out of bounds");
    }
  }
  if (!o.clamps) {
    out.correction.reject.push_back(RejectRule(o, &out));
    out.notes.emplace_back("the loss divides by the original token count");
    return out;
  }
  weight.low = o.lower.value_or(0);
  weight.high = o.upper;
  weight.mode = o.lower.has_value() ? RlWeightMode::kClip : RlWeightMode::kTruncate;
  if (o.by_sequence && o.agg != "mean") {
    out.complete = false;
    out.notes.emplace_back("clamps only rows whose sum or maximum is out of bounds");
  }
  return out;
}

constexpr DialectFunction kFunctions[] = {
    {"apply_rejection_sampling", "level action metric agg upper lower"},
};

}  // namespace

constinit const Dialect kArealDialect = {
    .id = "areal",
    .title = "AReaL",
    .repository = "inclusionAI/AReaL",
    .commit = "4aef98d8d",
    .functions = kFunctions,
    .oddities =
        "With `ratio` at sequence level the weight is the geometric mean whatever `agg` is. A "
        "log-ratio that is not finite is weight 1 and fails every KL bound.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
