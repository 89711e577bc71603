// OpenRLHF's PolicyLoss with vLLM correction. No clamp and no epsilon: an empty mean is NaN.
#include <cmath>

#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

struct OpenRlhfOptions {
  bool token_level_loss = true;
  bool enabled = false;
  std::string type = "tis";
  double low = 0.5, high = 5;
};

Result<OpenRlhfOptions> Read(const OptionValue& json) {
  OptionReader reader(json);
  OpenRlhfOptions out;
  out.token_level_loss = reader.Bool("token_level_loss", true);
  out.enabled = reader.Bool("enable_vllm_is_correction", false);
  out.type = reader.Word("vllm_is_correction_type", "tis", {"tis", "icepop", "seq-mask-tis"});
  if (const OptionValue* bounds = reader.Value("vllm_is_truncated_threshold")) {
    if (bounds->kind != OptionValue::Kind::kList || bounds->items.size() != 2 ||
        bounds->items[0].kind != OptionValue::Kind::kNumber ||
        bounds->items[1].kind != OptionValue::Kind::kNumber) {
      reader.Fail("\"vllm_is_truncated_threshold\" must be two numbers, [low, high]");
    } else {
      out.low = bounds->items[0].number;
      out.high = bounds->items[1].number;
    }
  }
  KCC_TRY_VOID(reader.Finish());
  return out;
}

Result<DialectResult> Run(const DialectInput& in, std::string_view, const OptionValue& json) {
  KCC_TRY(const OpenRlhfOptions options, Read(json));
  if (in.advantage.empty() && in.size() > 0) return InvalidError("PolicyLoss needs advantages");
  const auto inside = [&](double w) { return w >= options.low && w <= options.high; };
  const Doubles ratio = MapValues(in.d, Exp32);
  Doubles weights(in.size(), 1.0);
  Doubles keep(in.rows, 1.0);
  if (options.enabled && options.type == "tis") {
    weights = MapValues(ratio, [&](double w) { return Clamp(w, options.low, options.high); });
  } else if (options.enabled && options.type == "icepop") {
    weights = MapValues(ratio, [&](double w) { return w * (inside(w) ? 1.0 : 0.0); });
  } else if (options.enabled) {
    weights = ratio;
    keep = MapTokens(in.rows, [&](size_t r) {
      return inside(Exp32(in.RowSum(in.d, r) / in.Count(r))) ? 1.0 : 0.0;
    });
  }
  const Doubles kept = in.Spread(keep);
  const Doubles loss =
      MapTokens(in.size(), [&](size_t i) { return -in.advantage[i] * weights[i] * kept[i]; });
  double total = in.Sum(loss) / in.Count();
  if (!options.token_level_loss) {
    Doubles rows;  // fully masked ones are left out of this mean
    for (size_t r = 0; r < in.rows; ++r) {
      if (in.Count(r) > 0) rows.push_back(in.RowMean(loss, r));
    }
    total = rows.empty() ? std::nan("") : MeanOf(rows);
  }
  ResultBuilder out;
  out.Add("loss", total);
  if (!options.enabled) return out.Take();
  out.Add("vllm_kl", -in.Sum(in.d) / in.Count());
  out.Array("weights", in, std::move(weights));
  if (options.type == "seq-mask-tis") out.Column("sequence_mask", keep);
  return out.Take();
}

Result<DialectTranslation> Translate(std::string_view, const OptionValue& json) {
  KCC_TRY(const OpenRlhfOptions options, Read(json));
  DialectTranslation out;
  if (!options.enabled) return out;
  RlWeightRule& weight = out.correction.weight;
  weight.low = options.low;
  weight.high = options.high;
  if (options.type == "tis") {
    weight.mode = RlWeightMode::kClip;
    out.warnings.emplace_back(
        "\"tis\" clips from below too (0.5 by default): small weights are raised, which truncation "
        "does not do");
  } else if (options.type == "icepop") {
    weight.mode = RlWeightMode::kMask;
  } else {
    weight.mode = RlWeightMode::kFull;
    out.correction.reject.push_back(
        {RlStatistic::kRatio, RlAggregate::kSequenceMean, options.low, options.high});
    out.warnings.emplace_back(
        "\"seq-mask-tis\" does not truncate: token weights are unbounded, though a comment says "
        "that they are clamped");
    out.notes.emplace_back("rejected rows keep their place in the loss denominator");
  }
  return out;
}

constexpr DialectFunction kFunctions[] = {
    {"PolicyLoss",
     "token_level_loss enable_vllm_is_correction vllm_is_correction_type "
     "vllm_is_truncated_threshold"},
};

}  // namespace

constinit const Dialect kOpenRlhfDialect = {
    .id = "openrlhf",
    .title = "OpenRLHF",
    .repository = "OpenRLHF/OpenRLHF",
    .commit = "3c3be6234",
    .functions = kFunctions,
    .oddities =
        "No epsilon: a fully masked row is NaN in `seq-mask-tis` and dropped; IcePop of an "
        "overflowed ratio is NaN.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
