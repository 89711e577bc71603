// ROLL's compute_train_infer_correction. Its token-mean reducer ignores the mask: padding positions
// are added up and the sum divided by the valid tokens. A segment is a run of ones in the mask, its
// ratio the geometric mean over it, and 1 outside.
#include <algorithm>
#include <array>
#include <cmath>

#include "kcc/numeric/double_math.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"token", "geometric", "sequence", "segment"};

struct RollFilter {
  size_t level = 0;  // of kLevels
  bool by_ratio = true, by_diff = false;
  double ratio_low = 0.8, ratio_high = 1.2, diff_low = -0.2, diff_high = 0.2;
};

struct RollOptions {
  bool weighs = false;
  size_t level = 0;
  std::optional<double> upper = 1.2;
  std::vector<RollFilter> filters;
  bool has_filters = false;  // disabled ones count
};

size_t ReadLevel(OptionReader& reader, std::string_view key) {
  const std::string word = reader.Word(key, "token", {"token", "geometric", "sequence", "segment"});
  return static_cast<size_t>(std::find(kLevels.begin(), kLevels.end(), word) - kLevels.begin());
}

Result<RollFilter> ReadFilter(const OptionValue& json, bool* enabled) {
  OptionReader reader(json);
  RollFilter out;
  *enabled = reader.Bool("enabled", true);
  out.level = ReadLevel(reader, "agg_type") % kLevels.size();
  out.by_ratio = reader.Bool("ratio_enabled", true);
  out.ratio_low = reader.Number("ratio_low", 0.8);
  out.ratio_high = reader.Number("ratio_high", 1.2);
  out.by_diff = reader.Bool("diff_enabled", false);
  out.diff_low = reader.Number("diff_low", -0.2);
  out.diff_high = reader.Number("diff_high", 0.2);
  KCC_TRY_VOID(reader.Finish());
  return out;
}

Result<RollOptions> Read(const OptionValue& json) {
  OptionReader reader(json);
  RollOptions out;
  if (const OptionValue* weight = reader.Value("is_weight")) {
    OptionReader inner(*weight);
    out.weighs = inner.Bool("enabled", false);
    out.level = ReadLevel(inner, "weight_type") % kLevels.size();
    out.upper = inner.MaybeNumber("upper_bound", 1.2);
    inner.Bool("detach", true);
    KCC_TRY_VOID(inner.Finish());
  }
  if (const OptionValue* filters = reader.Value("filters")) {
    for (const OptionValue& item : filters->items) {
      bool enabled = false;
      KCC_TRY(RollFilter filter, ReadFilter(item, &enabled));
      out.has_filters = true;
      if (enabled) out.filters.push_back(filter);
    }
  }
  KCC_TRY_VOID(reader.Finish());
  return out;
}

// The mean over each run of ones in the mask, 0 outside.
Doubles SegmentMeans(const DialectInput& in, const Doubles& x) {
  Doubles out(in.size(), 0.0);
  for (size_t r = 0; r < in.rows; ++r) {
    size_t i = in.begin(r);
    while (i < in.end(r)) {
      if (in.mask[i] == 0) {
        ++i;
        continue;
      }
      size_t last = i;
      double sum = 0;
      while (last < in.end(r) && in.mask[last] != 0) sum += x[last++];
      const double mean = sum / static_cast<double>(last - i);
      while (i < last) out[i++] = mean;
    }
  }
  return out;
}

struct Levels {
  std::array<Doubles, 4> ratio, diff;
};

Levels ComputeLevels(const DialectInput& in) {
  Levels out;
  const Doubles diff =
      MapTokens(in.size(), [&](size_t i) { return Exp(in.train[i]) - Exp(in.rollout[i]); });
  out.ratio = {MapValues(in.d, Exp32), in.Spread(MapValues(in.RowMeans(in.d), Exp32)),
               in.Spread(MapValues(in.RowSums(in.d), Exp32)),
               MapValues(SegmentMeans(in, in.d), Exp32)};
  out.diff = {diff, in.Spread(in.RowMeans(diff)), in.Spread(in.RowSums(diff)),
              SegmentMeans(in, diff)};
  return out;
}

double RowsThenSamples(const DialectInput& in, const Doubles& x) {
  double sum = 0, samples = 0;
  for (size_t r = 0; r < in.rows; ++r) {
    sum += in.RowMean(x, r);
    samples += in.Count(r) > 0;
  }
  return sum / std::max(1.0, samples);
}

double EveryPosition(const DialectInput& in, const Doubles& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / std::max(1.0, in.Count());
}

void ApplyFilter(const DialectInput& in, const Doubles& x, double low, double high,
                 const std::string& name, Doubles* keep, ResultBuilder* out) {
  const Doubles pass = MapValues(x, [&](double v) { return v >= low && v <= high ? 1.0 : 0.0; });
  out->Add("actor/train_infer_" + name + "_mask_mean@sum", EveryPosition(in, pass));
  for (size_t i = 0; i < keep->size(); ++i) (*keep)[i] *= pass[i];
}

Result<DialectResult> Run(const DialectInput& in, std::string_view, const OptionValue& json) {
  KCC_TRY(const RollOptions options, Read(json));
  const Levels levels = ComputeLevels(in);
  ResultBuilder out;
  for (size_t l = 0; l < kLevels.size(); ++l) {
    const std::string level(kLevels[l]);
    out.Add("actor/train_infer_ratio_" + level + "_mean@sum", RowsThenSamples(in, levels.ratio[l]));
    out.Add("actor/train_infer_diff_" + level + "_mean@sum", RowsThenSamples(in, levels.diff[l]));
  }
  Doubles weights(in.size(), 1.0);
  if (options.weighs) {
    weights = levels.ratio[options.level];
    if (options.upper.has_value()) {
      const double high = *options.upper;
      out.Add(
          "actor/is_weight_clipfrac@sum",
          EveryPosition(in, MapValues(weights, [&](double w) { return w > high ? 1.0 : 0.0; })));
      for (double& w : weights) w = Clamp(w, 0, high);
    }
  }
  Doubles keep(in.size(), 1.0);
  for (const RollFilter& filter : options.filters) {
    const std::string level(kLevels[filter.level]);
    if (filter.by_ratio) {
      ApplyFilter(in, levels.ratio[filter.level], filter.ratio_low, filter.ratio_high,
                  level + "_ratio", &keep, &out);
    }
    if (filter.by_diff) {
      ApplyFilter(in, levels.diff[filter.level], filter.diff_low, filter.diff_high, level + "_diff",
                  &keep, &out);
    }
  }
  if (options.has_filters) out.Add("actor/train_infer_final_mask_mean", in.Mean(keep));
  out.Array("weights", in, std::move(weights));
  out.Array("filter_mask", in, keep);
  out.Array("mask", in, MapTokens(in.size(), [&](size_t i) { return in.mask[i] * keep[i]; }));
  return out.Take();
}

Result<DialectTranslation> Translate(std::string_view, const OptionValue& json) {
  KCC_TRY(const RollOptions o, Read(json));
  static constexpr std::array kWeightLevels = {RlLevel::kToken, RlLevel::kGeometric,
                                               RlLevel::kSequence, RlLevel::kSegment};
  static constexpr std::array kAggregates = {RlAggregate::kTokenwise, RlAggregate::kSequenceMean,
                                             RlAggregate::kSequenceSum, RlAggregate::kSegmentSum};
  DialectTranslation out;
  bool segments = o.weighs && o.level == 3;
  if (o.weighs) {
    RlWeightRule& weight = out.correction.weight;
    weight.level = kWeightLevels[o.level];
    weight.mode = o.upper.has_value() ? RlWeightMode::kTruncate : RlWeightMode::kFull;
    weight.high = o.upper.value_or(2);
    if (weight.level == RlLevel::kSequence) out.warnings.emplace_back(kWarnSequenceIsProduct);
  }
  for (const RollFilter& filter : o.filters) {
    if (filter.by_ratio) {
      out.correction.reject.push_back(
          {RlStatistic::kRatio, kAggregates[filter.level], filter.ratio_low, filter.ratio_high});
      segments |= filter.level == 3;
    }
    if (filter.by_diff) {
      out.complete = false;
      out.notes.emplace_back("probability-difference bands have no canonical counterpart");
    }
  }
  if (segments) {
    out.complete = false;
    out.warnings.emplace_back(
        "\"segment\" is the geometric mean over a run of the mask here; the canonical segment is "
        "the product");
  }
  out.warnings.emplace_back(
      "is_weight_clipfrac and *_mask_mean add up padding positions and divide by valid tokens: "
      "they can exceed 1");
  return out;
}

constexpr DialectFunction kFunctions[] = {
    {"compute_train_infer_correction", "is_weight filters"},
};

}  // namespace

constinit const Dialect kRollDialect = {
    .id = "roll",
    .title = "ROLL",
    .repository = "alibaba/ROLL",
    .commit = "8eb27cc2d",
    .functions = kFunctions,
    .oddities = "`is_weight_clipfrac` and `*_mask_mean` add up padding and divide by valid tokens.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
